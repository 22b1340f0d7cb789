"""Stores on real devices, that are full, that cannot be read, or that take no more writes."""
