"""Maintenance keeps a store small: it decides when a log is cleaned and what expires, and does it."""
