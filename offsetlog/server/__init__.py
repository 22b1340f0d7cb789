"""The server: a group coordinator and offset store that any Kafka client talks to."""
