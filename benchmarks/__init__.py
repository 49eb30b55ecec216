"""What deciding costs, as ratios measured in one run: `make bench`, or `python -m benchmarks`."""
