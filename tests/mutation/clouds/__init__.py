"""The part of the catalog about the clouds, a file for each adapter."""
