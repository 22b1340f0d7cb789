"""`offsetlog spark pack`: an archive of the packages that executors need."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from offsetlog.cli.arguments import OutputFormat
from offsetlog.cli.columns import columns
from offsetlog.cli.output import Format, Output, bytes_text
from offsetlog.missing_library import missing_library

HELP = """Write an archive of offsetlog and its dependencies, for the executors of a cluster.

Spark unpacks the archive on each executor. The archive has no Python interpreter. Its bin/python starts the executor's
own Python, which must have the minor version, the machine type and the libc of this Python (a newer glibc is accepted).
If bin/python finds no such Python, it reports the reason on the executor's standard error. The archive omits PySpark,
because the executors' Spark brings its own. The command packs only packages of this environment, and downloads nothing.

Exit codes: 0 done, 2 refused, or the archive could not be written.

\b
Examples:
  offsetlog spark pack environment.tar.gz
  offsetlog spark pack environment.tar.gz --with pandas --overwrite
"""


def command(
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="The new archive, NAME.tar.gz.", show_default=False)],
    also: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="NAME",
            help="Another installed package to pack, with its dependencies. Can be given several times.",
            show_default=False,
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing archive.")] = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Writes the archive and prints its contents; returns the exit code."""
    try:
        from offsetlog.spark.packing import pack
    except ModuleNotFoundError as missing:
        if missing.name != "packaging":
            raise
        raise missing_library("pack", "packaging") from None
    packed = pack(output, also or (), overwrite=overwrite)
    printed = Output(form)
    row = {**asdict(packed), "file": packed.path, "bytes": packed.size, "unpacked_bytes": packed.unpacked_size}
    printed.result(columns("spark pack"), row)
    names = ", ".join(f"{name} {version}" for name, version in packed.packages.items())
    libc = f", and glibc {packed.libc} or newer" if packed.libc else ""
    printed.line(f"{output}: {bytes_text(packed.size)}, {bytes_text(packed.unpacked_size)} unpacked: {names}")
    printed.line(f"each worker needs Python {packed.python} ({packed.abi}){libc}")
    setting = f"--conf spark.archives={output}#environment"
    printed.line(f"to use the archive: {setting} and PYSPARK_PYTHON=./environment/bin/python")
    return 0
