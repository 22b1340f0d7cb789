"""Consumer groups and their coordinator, without I/O: requests, time and records in; answers and records out."""
