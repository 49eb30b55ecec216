"""Actors that write to the cloud and to the record store, and their pools."""
