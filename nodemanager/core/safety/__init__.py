"""What stops everything, and what checks the daemon: breaker, rate limits, proof."""
