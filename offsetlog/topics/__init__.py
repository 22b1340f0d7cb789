"""Ordinary topics: their logs in a log directory, in Kafka's file formats (docs/format/topics.md)."""
