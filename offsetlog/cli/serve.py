"""offsetlog serve: any Kafka client talks to it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from offsetlog.cli.addresses import parse_address
from offsetlog.cli.app import exit_code_of
from offsetlog.cli.log_lines import Form, Level, log_lines
from offsetlog.config import PARTITIONS_DEFAULT
from offsetlog.errors import OffsetLogError
from offsetlog.server.configuration import settings_of
from offsetlog.server.event_loop import new_event_loop
from offsetlog.server.properties import Given, read_properties
from offsetlog.server.server import Server
from offsetlog.topics.open_files import raise_limit_of_open_files

_log = logging.getLogger(__name__)


def _given(option: str, value: object) -> Given | None:
    return None if value is None else Given(str(value), option)


def _listener(option: str, text: str | None, scheme: str = "PLAINTEXT") -> Given | None:
    if text is None:
        return None
    return Given(f"{scheme}://{parse_address(text)}", option)


HELP = """Serve Kafka clients: consumer groups and their positions.

It says where it listens when it is ready, and stops on SIGTERM or Ctrl-C, when everything is
written. PATH is a new or an empty directory, or one that a store or a stopped broker has written.

\b
Exit codes: 0 stopped as asked; 2 could not start.

\b
Examples:
  offsetlog serve data                                   on 127.0.0.1:9092
  offsetlog serve data --listen 127.0.0.1:0              on a free port
  offsetlog serve /var/kafka-logs --partitions 50        a broker's, that is stopped
  offsetlog serve --config server.properties             as the file says
"""


def command(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="[PATH]", help="The log directory; else log.dirs of --config."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A server.properties with Kafka's names; the options of the command come before it.",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Where to listen (127.0.0.1:9092); port 0 takes a free one.",
        ),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where clients find it, if that is another address."),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help=f"Partitions of the offsets topic, for a new directory ({PARTITIONS_DEFAULT}).",
        ),
    ] = None,
    durability: Annotated[
        Literal["process", "disk"] | None,
        typer.Option(help="When a commit is answered: after the write, or after the flush (disk)."),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Where to answer /metrics, /healthz, /readyz and /groups over HTTP."
        ),
    ] = None,
    log_format: Annotated[
        Form, typer.Option(help="How it logs to the standard error: as lines of text or of JSON.")
    ] = "text",
    log_level: Annotated[
        Level, typer.Option(help="What it logs: this and worse.")
    ] = "warning",
    allow_any_host: Annotated[
        bool,
        typer.Option("--allow-any-host", help="Listen off loopback; there is no security yet."),
    ] = False,
) -> int:
    """Serves until it is asked to stop."""
    options = {
        "listeners": _listener("--listen", listen),
        "advertised.listeners": _listener("--advertise", advertise),
        "metrics.listener": _listener("--metrics", metrics, "http"),
        "offsets.topic.num.partitions": _given("--partitions", partitions),
        "offsets.commit.durability": _given("--durability", durability),
    }
    given = {} if config is None else read_properties(config)
    given.update({name: each for name, each in options.items() if each is not None})
    settings = settings_of(given, path, allow_any_host=allow_any_host)
    raise_limit_of_open_files()
    with log_lines(log_format, log_level):
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(_run(Server(settings)))
        except Exception as failure:
            if log_format == "text":
                raise    # and it becomes a line, as that of any command
            is_fault = not isinstance(failure, OffsetLogError | OSError)
            _log.critical("the server ended: %s", failure, exc_info=is_fault)
            return exit_code_of(failure)
    return 0


def _on_signals(call: Callable[[], object]) -> None:
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, call)


async def _run(server: Server) -> None:
    stopped = asyncio.Event()
    # A recovery can take minutes, and cannot be interrupted.  Nothing was answered yet, and what it
    # leaves is what a crash leaves.
    _on_signals(partial(os._exit, 0))
    host, port = await server.start()
    _on_signals(stopped.set)
    print(f"offsetlog listens on {host}:{port}", flush=True)
    if server.metrics_address is not None:
        print("offsetlog answers on http://{}:{}/metrics".format(*server.metrics_address), flush=True)
    try:
        await stopped.wait()
    finally:
        await server.stop()
