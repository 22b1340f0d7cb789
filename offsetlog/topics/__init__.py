"""Ordinary topics: their logs in a log directory, in Kafka's own files (docs/format/topics.md)."""
