"""Arguments that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from offsetlog.cli.output import Format

LogPath = Annotated[
    Path,
    typer.Argument(
        metavar="PATH", help="A log directory, a partition directory or a segment file.", show_default=False
    ),
]
StorePath = Annotated[Path, typer.Argument(metavar="PATH", help="A log directory.", show_default=False)]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.", show_default=False)]
Wide = Annotated[
    bool, typer.Option("--wide", help="On a terminal: every field, in one line for each row, however long.")
]
OutputFormat = Annotated[Format, typer.Option("--format", help="How to print: text, or json for one object a line.")]
