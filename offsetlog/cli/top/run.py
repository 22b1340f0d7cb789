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

The groups come from the server itself, or from any Kafka broker that coordinates them; rates (of
commits of each group, too), latencies and memory from its metrics, which
`offsetlog serve --metrics` answers. Ctrl-C ends it.
Where the output is no terminal, one picture is printed, as with --once.

\b
Exit codes: 0 shown; 2 the server could not be asked.

\b
Examples:
  offsetlog top 127.0.0.1:9092 --metrics 127.0.0.1:9093
  offsetlog top broker:9092 --once                       the groups of a broker
"""


def command(
    server: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where clients connect.")],
    metrics: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where its metrics are answered.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print one picture, and end.")] = False,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Between two pictures.")
    ] = 2.0,
    groups: Annotated[
        int, typer.Option(metavar="N", min=0, help="How many groups to describe.")
    ] = 30,
) -> int:
    """Shows pictures until it is interrupted."""
    observer = Observer(server, metrics, groups)
    output = Output(Format.TEXT)
    with closing(observer):
        # A server that is not there at all is an error, and no picture.
        first = observer.look()
        if once or not output.is_terminal:
            output.line(plain_text(first))
            return 0
        with suppress(KeyboardInterrupt):
            show(observer, output.console, lambda: time.sleep(interval), first)
    return 0
