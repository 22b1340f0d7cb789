"""offsetlog top: a running server, live in a terminal."""

from offsetlog.cli.top.run import HELP, command

__all__ = ["HELP", "command"]
