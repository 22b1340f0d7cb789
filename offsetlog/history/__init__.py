"""Reads the past of a store from its logs, and restores positions from the past."""
