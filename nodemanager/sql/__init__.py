"""SQL databases: opened, brought up to date, and used in transactions that end in time."""
