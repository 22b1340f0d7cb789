"""Groups and their coordinator, pure: requests, time and records come in, answers and records go out."""
