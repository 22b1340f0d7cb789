"""The files of a log directory: its contents, the floor of its history, and its snapshots."""
