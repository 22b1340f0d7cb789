"""Commits the rows of a DataFrame to a store.  Each task stages its rows; the driver publishes them exactly once."""
