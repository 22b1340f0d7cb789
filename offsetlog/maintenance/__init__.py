"""Maintenance keeps a store small: it cleans logs when that pays, and expires unused positions."""
