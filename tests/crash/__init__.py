"""Processes that are killed."""
