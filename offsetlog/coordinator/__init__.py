"""Consumer groups and their coordinator, without I/O: requests and the time go in, answers and records come out."""
