"""The command line: one file per command; `output` prints, `app` finds commands and reports failures."""
