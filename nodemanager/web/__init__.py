"""The daemon's HTTP server for status, health, metrics and operators' commands."""
