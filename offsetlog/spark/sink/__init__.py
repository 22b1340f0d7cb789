"""Commits rows of a DataFrame into a store: staged by each task, published once on the driver."""
