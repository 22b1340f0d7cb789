"""Arguments that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from offsetlog.cli.completion import group_names
from offsetlog.cli.output import Format

LogPath = Annotated[
    Path,
    typer.Argument(
        metavar="PATH", help="A log directory, a partition directory or a segment file.", show_default=False
    ),
]
StorePath = Annotated[Path, typer.Argument(metavar="PATH", help="A log directory.", show_default=False)]


def propose_groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the groups of the log at the argument `path` that begin so, for the completion of a shell."""
    path = ctx.params.get("path")
    if path is None:
        return []
    # The shell hands the words over as they are typed; a name with a dash in front would be an option.
    names = group_names(Path(path).expanduser())
    return [name for name in names if name.startswith(incomplete) and name and not name.startswith("-")]


GroupName = Annotated[
    str,
    typer.Argument(metavar="GROUP", help="The consumer group.", show_default=False, autocompletion=propose_groups),
]
OnlyGroup = Annotated[
    str | None,
    typer.Option(
        "--group",
        help="Only this group; --group=-x for a name that begins with a dash.",
        autocompletion=propose_groups,
    ),
]
Wide = Annotated[
    bool, typer.Option("--wide", help="On a terminal: every field, in one line for each row, however long.")
]
LogPartitions = Annotated[
    str | None,
    typer.Option(
        "--log-partition",
        metavar="N,...",
        help="Only these partitions of the offsets topic, as 0,3-5.",
        show_default=False,
    ),
]
OutputFormat = Annotated[
    Format,
    typer.Option(
        "--format",
        help="How to print rows: text (a table; TSV where the output is no terminal), or for programs tsv, csv "
        "(with a heading; times in UTC) or json (an object a line; times in ms). Only the table leaves fields out.",
    ),
]
