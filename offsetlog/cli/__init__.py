"""The command line: one file a command, `output` for what they print, `app` for how they are found and fail."""
