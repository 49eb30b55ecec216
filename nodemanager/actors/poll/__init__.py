"""Actors that poll the cloud, the records and the demand."""
