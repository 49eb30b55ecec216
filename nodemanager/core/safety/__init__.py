"""What stops the daemon, and what checks it: breaker, rate limits, boot loops, proof."""
