"""`offsetlog demo`, and the log directory that it opens: a Kafka 4.3.0 broker's (scenario "groups" of tests/data)."""

from offsetlog.cli.demo.run import HELP, command

__all__ = ["HELP", "command"]
