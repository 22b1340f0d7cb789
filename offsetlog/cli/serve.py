"""offsetlog serve: any Kafka client talks to it."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Annotated, Literal

import typer

from offsetlog.config import PARTITIONS_DEFAULT
from offsetlog.errors import InvalidArgumentError
from offsetlog.manager.settings import ManagerSettings
from offsetlog.server.event_loop import new_event_loop
from offsetlog.server.server import Server, ServerSettings


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InvalidArgumentError(f"{text!r} is no HOST:PORT")
    return host.strip("[]"), int(port)


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
"""


def command(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The log directory.")],
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 takes a free one.")
    ] = "127.0.0.1:9092",
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
        Literal["process", "disk"],
        typer.Option(help="When a commit is answered: after the write, or after the flush."),
    ] = "disk",
    allow_any_host: Annotated[
        bool,
        typer.Option("--allow-any-host", help="Listen off loopback; there is no security yet."),
    ] = False,
) -> int:
    """Serves until it is told to stop."""
    host, port = _address(listen)
    advertised_host, advertised_port = _address(advertise) if advertise else (None, None)
    settings = ServerSettings(
        manager=ManagerSettings(
            path=path,
            partitions=partitions if partitions is not None else PARTITIONS_DEFAULT,
            durability=durability,
            accept_while_loading=False,
        ),
        host=host,
        port=port,
        advertised_host=advertised_host,
        advertised_port=advertised_port,
        allow_any_host=allow_any_host,
    )
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_run(Server(settings)))
    return 0


async def _run(server: Server) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopped.set)
    host, port = await server.start()
    print(f"offsetlog listens on {host}:{port}", flush=True)
    try:
        await stopped.wait()
    finally:
        await server.stop()
