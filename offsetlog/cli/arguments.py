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
    """Completes a group's name in a shell: returns the groups of the log at `path` that begin with `incomplete`."""
    path = ctx.params.get("path")
    if path is None:
        return []
    # The shell inserts a name as it is; one that begins with a dash would be read as an option.
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
        help="Show only this group. For a name that begins with a dash, such as -x, give --group=-x.",
        autocompletion=propose_groups,
    ),
]
Wide = Annotated[
    bool, typer.Option("--wide", help="On a terminal, print every field. Each row takes one line, however long.")
]
LogPartitions = Annotated[
    str | None,
    typer.Option(
        "--log-partition",
        metavar="N,...",
        help="Process only these partitions of the offsets topic, e.g. 0,3-5.",
        show_default=False,
    ),
]
OutputFormat = Annotated[
    Format,
    typer.Option(
        "--format",
        help="The format of the rows. 'text' is a table on a terminal, and TSV elsewhere. For programs, 'tsv' and "
        "'csv' have a heading, and times in UTC; 'json' has one object per line, and times in ms. Only the table omits "
        "fields.",
    ),
]
