"""The dashboard: pages for a browser, rendered here and kept up to date by server-sent events."""
