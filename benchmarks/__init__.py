"""Measures offsetlog, and other stores in the same run: `python -m benchmarks engine`."""
