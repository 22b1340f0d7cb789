"""`offsetlog demo`, and the log directory of a Kafka 4.3.0 broker that it opens (scenario "groups" of tests/data)."""

from offsetlog.cli.demo.run import HELP, command

__all__ = ["HELP", "command"]
