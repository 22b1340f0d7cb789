"""Consumer groups and their coordinator, without I/O: it takes requests and the time, and gives answers and records."""
