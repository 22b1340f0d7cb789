"""Consumer groups and their coordinator, without I/O: takes requests, time and records; gives answers and records."""
