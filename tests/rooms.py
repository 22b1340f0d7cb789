"""The rooms of csrc/: which may include which, and a picture of what the code includes.

    python tests/rooms.py             prints the picture
    python tests/rooms.py --write     puts it into docs/architecture.md
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
CSRC = ROOT / "csrc"
PAGE = ROOT / "docs" / "architecture.md"

#: Room -> the rooms that it may include; it may include all that these may, too.  The log does not
#: know what an offset commit is; the table does not know what a file is; the partition joins them.
ROOMS: dict[str, set[str]] = {
    "base": set(),
    "format": {"base"},
    "fs": {"base"},
    "wire": {"format"},
    "testing": {"fs"},
    "table": {"base"},
    "log": {"format", "fs"},
    "topic": {"log"},
    "state": {"table", "format"},
    "columns": {"log", "table"},
    "snapshot": {"state", "log"},
    "partition": {"snapshot"},
    "cleaner": {"partition", "topic"},
    "retention": {"partition"},
    "history": {"partition", "columns"},
    "front": {"partition", "wire"},
}

BEGIN, END = "<!-- made by: python tests/rooms.py --write -->", "<!-- end -->"


def files() -> list[Path]:
    return sorted(path for suffix in ("c", "h") for path in CSRC.rglob(f"*.{suffix}"))


def included(path: Path) -> list[str]:
    """The files of csrc/ that a file includes, as it names them."""
    return re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE)


def room_of(path: str) -> str:
    return path.split("/")[0]


def below(room: str) -> set[str]:
    """The rooms that `room` may include: itself, those that it names, and all below them."""
    return {room, *ROOMS[room], *(deeper for lower in ROOMS[room] for deeper in below(lower))}


def refused(path: str, include: str) -> str | None:
    """Why the file at `path` of csrc/ may not include the file `include`; None where it may."""
    folder, _, name = include.rpartition("/")
    if not folder:
        return 'an include names its room: "log/segment.h"'
    room, included_room = room_of(path), room_of(include)
    if room not in ROOMS or included_room not in ROOMS:
        return f"tests/rooms.py does not name {room if room not in ROOMS else included_room}/"
    if included_room not in below(room):
        return f"{included_room}/ does not stand below {room}/"
    if name.endswith("_impl.h") and not path.startswith(f"{folder}/"):
        return "an _impl.h is seen only in its own folder and below"
    if name.endswith("_impl.h") and path.endswith(".h") and not path.endswith("_impl.h"):
        return "an _impl.h is included by sources and by other _impl.h only"
    return None


def arrows() -> dict[str, set[str]]:
    """Room -> the other rooms that its files include."""
    found: dict[str, set[str]] = {room: set() for room in ROOMS}
    for path in files():
        room = room_of(str(path.relative_to(CSRC)))
        found[room] |= {room_of(include) for include in included(path)} - {room}
    return found


def floors(found: dict[str, set[str]]) -> list[list[str]]:
    """Rooms by floor, the lowest first: a room stands one floor above the highest that it includes."""
    placed: dict[str, int] = {}
    while len(placed) < len(found):
        ready = [room for room in found if room not in placed and found[room] <= set(placed)]
        if not ready:
            raise ValueError(f"a circle among {sorted(set(found) - set(placed))}")
        for room in ready:
            placed[room] = 1 + max((placed[lower] for lower in found[room]), default=-1)
    return [
        [room for room in found if placed[room] == floor]
        for floor in range(max(placed.values()) + 1)
    ]


def picture() -> str:
    """Rooms by floor, the highest first, each with its number of files and the rooms it includes."""
    found = arrows()
    by_floor = floors(found)
    order = [room for floor in by_floor for room in floor]
    count = {room: sum(room_of(str(path.relative_to(CSRC))) == room for path in files()) for room in ROOMS}
    lines = []
    for number in range(len(by_floor) - 1, -1, -1):
        for position, room in enumerate(by_floor[number]):
            floor = f"{number}" if position == 0 else " "
            lower = " ".join(sorted(found[room], key=order.index, reverse=True))
            lines.append(f"{floor}  {room:<10}{count[room]:>3} files{f'  ->  {lower}' if lower else ''}")
    return "\n".join(lines)


def diagram() -> str:
    """The same for Mermaid: an arrow to each room included that no room between them includes."""
    found = arrows()

    def reached(room: str) -> set[str]:
        return {room, *(deeper for lower in found[room] for deeper in reached(lower))}

    lines = ["graph TD"]
    for floor in reversed(floors(found)):
        for room in floor:
            between = {deeper for lower in found[room] for deeper in reached(lower) - {lower}}
            lines += [f"    {room} --> {lower}" for lower in sorted(found[room] - between)]
    return "\n".join(lines)


def written(text: str) -> str:
    """The page with the pictures of the code in it."""
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    return f"{head}{BEGIN}\n\n```mermaid\n{diagram()}\n```\n\n```text\n{picture()}\n```\n\n{END}{tail}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(written(PAGE.read_text()))
    else:
        print(picture())
