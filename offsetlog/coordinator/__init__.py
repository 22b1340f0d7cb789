"""Consumer groups and their coordinator.

They do no I/O: the caller passes in requests and the time, and gets answers and records.
"""
