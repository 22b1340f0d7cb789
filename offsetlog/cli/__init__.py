"""The command line: one file per command, `output` for printing, `app` for finding commands and reporting failures."""
