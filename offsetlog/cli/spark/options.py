"""The options that several commands of Spark jobs share, and the parsers of their values."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated

import typer

from offsetlog.errors import InvalidArgumentError
from offsetlog.moments import parse_moment

#: This is not a Path, because on a cluster it may be the address of an object store.
DirectoryPath = Annotated[
    str,
    typer.Argument(metavar="PATH", help="A log directory, of offsetlog or of a broker.", show_default=False),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master", metavar="URL", help="Spark's master; local[*] by default.", show_default=False
    ),
]
DriverMemory = Annotated[
    str | None,
    typer.Option(
        "--driver-memory", metavar="SIZE", help="Memory of Spark's JVM, e.g. 1g.", show_default=False
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="NAME=VALUE",
        help="A setting of Spark. Can be given several times.",
        show_default=False,
    ),
]
OutputDirectory = Annotated[
    str | None,
    typer.Option(
        "--output", metavar="DIR", help="Write the tables to this directory, as Parquet.", show_default=False
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing tables, or an existing report.")]

Permissive = Annotated[
    bool,
    typer.Option(
        "--permissive",
        help="Go on if something is missing or damaged, report it, and mark the output as incomplete.",
    ),
]


def parse_settings(settings: list[str] | None) -> dict[str, str]:
    """Parses settings of Spark, and returns them by name; raises InvalidArgumentError."""
    pairs = {}
    for setting in settings or []:
        name, equals, value = setting.partition("=")
        if not name or not equals:
            raise InvalidArgumentError(f"{setting!r} is not a setting; write it as NAME=VALUE")
        pairs[name] = value
    return pairs


def moment_option(text: str | None) -> str | None:
    """Converts a moment that a user typed to the value of the data source's option `at`; None means now.

    A JSON object that maps log partitions to log offsets is returned unchanged, because the option `at` also takes
    that.

    Raises:
        InvalidArgumentError: the text is neither a moment nor a JSON object.
    """
    if text is None:
        return None
    plain = text.strip()
    if plain.startswith("{"):
        try:
            return json.dumps(json.loads(plain))
        except ValueError as failure:
            raise InvalidArgumentError(
                f"{text!r} is not a JSON object that maps log partitions to log offsets: {failure}"
            ) from None
    moment = parse_moment(text)
    if moment is None:
        return None
    return moment.isoformat() if isinstance(moment, datetime) else f"offset:{moment}"
