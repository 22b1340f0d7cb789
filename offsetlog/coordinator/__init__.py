"""Consumer groups and their coordinator.

This package does no I/O: the caller passes in requests and the time, and gets answers and records.
"""
