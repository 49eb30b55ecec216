"""One HTTP server for every port: its limits, its refusals, its connections."""
