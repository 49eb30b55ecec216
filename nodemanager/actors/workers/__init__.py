"""Actors that write to the cloud and to the record store, and the pools of them."""
