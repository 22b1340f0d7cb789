"""Maintenance keeps a store small: when a log is cleaned, how, what expires, and what was done."""
