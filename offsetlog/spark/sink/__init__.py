"""Commits the rows of a DataFrame to a store: each task stages its rows, and the driver publishes them once."""
