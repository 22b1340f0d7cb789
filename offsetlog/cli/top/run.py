"""The command `offsetlog top`."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from typing import Annotated

import typer

from offsetlog.cli.output import Format, Output
from offsetlog.cli.top.frame import plain_text
from offsetlog.cli.top.live import Observer, show

HELP = """Show a running server: its groups, rates and latencies.

HOST:PORT is the address at which an offsetlog server or a Kafka broker serves its clients. The server at this address
reports the groups. With --metrics, the command also shows rates, latencies, memory and the commits of each group. Give
--metrics the same address as in `offsetlog serve --metrics`. Ctrl-C ends the command. If the output is not a terminal,
the state is printed once, as with --once.

Exit codes: 0 shown; 2 the server does not answer, or wrong usage.

\b
Examples:
  offsetlog top 127.0.0.1:9092 --metrics 127.0.0.1:9093
  offsetlog top broker:9092 --once                       the groups of a broker
"""


def command(
    server: Annotated[str, typer.Argument(metavar="HOST:PORT", help="The address for Kafka clients.")],
    metrics: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The address of the server's metrics.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print once and exit.")] = False,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="The time between two refreshes.")
    ] = 2.0,
    groups: Annotated[
        int, typer.Option(metavar="N", min=0, help="How many groups to show.")
    ] = 30,
) -> int:
    """Shows frames until the user interrupts the command, or one frame with --once."""
    observer = Observer(server, metrics, groups)
    output = Output(Format.TEXT)
    with closing(observer):
        # If the server does not answer the first time, the command fails.
        first = observer.look()
        if once or not output.is_terminal:
            for line in plain_text(first).splitlines():
                output.line(line)
            return 0
        with suppress(KeyboardInterrupt):
            show(observer, output.console, lambda: time.sleep(interval), first)
    return 0
