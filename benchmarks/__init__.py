"""The costs of offsetlog, beside its peers in the same run: `python -m benchmarks engine`."""
