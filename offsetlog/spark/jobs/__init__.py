"""Jobs over logs on Spark; each a function on DataFrames, and a command (`offsetlog spark JOB`)."""
