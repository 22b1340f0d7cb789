"""The files of a log directory: what is there, how far back it tells, and its snapshots."""
