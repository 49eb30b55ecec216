"""What any program may use: nothing here knows of nodes or records."""
