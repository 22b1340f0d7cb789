"""Faults to the files of a store that no process has open: drawn from a seed, and done."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

HOWS = ("flip", "flip", "zero", "cut", "cut at a batch", "garbage", "remove", "empty")


@dataclass(frozen=True)
class Fault:
    """A change of a file or a directory of a log directory; `name` is its path there."""

    how: str
    name: str

    @property
    def is_to_log(self) -> bool:
        return self.name.endswith(".log") or self.how == "remove directory"


def harm_some(path: Path, count: int, draw: random.Random) -> list[Fault]:
    """Does `count` faults to the log directory `path`, and returns them."""
    done: list[Fault] = []
    while len(done) < count:
        directories = sorted(path.glob("__consumer_offsets-*"))
        if directories and draw.random() < 0.02:
            directory = draw.choice(directories)
            shutil.rmtree(directory)
            done.append(Fault("remove directory", directory.name))
            continue
        file, how = _draw_file(path, draw), draw.choice(HOWS)
        if file is not None and _harm(file, how, draw):
            done.append(Fault(how, str(file.relative_to(path))))
    return done


def _draw_file(path: Path, draw: random.Random) -> Path | None:
    files = sorted(each for each in path.rglob("*") if each.is_file() and _is_of_store(each))
    logs = [each for each in files if each.suffix == ".log"]
    return draw.choice(logs if logs and draw.random() < 0.6 else files) if files else None


def _is_of_store(file: Path) -> bool:
    """Tells whether a fault may hit a file: not the lock, no other topic, and nothing of a broker alone."""
    is_of_directory = file.name.startswith("offsetlog.") or file.name.endswith("-checkpoint")
    is_of_partition = file.parent.name.startswith("__consumer_offsets-")
    return is_of_partition or is_of_directory or file.name == ".kafka_cleanshutdown"


def _harm(path: Path, how: str, draw: random.Random) -> bool:
    """Does it, and returns whether it could."""
    if how == "remove":
        path.unlink()
        return True
    data = bytearray(path.read_bytes())
    if not data or (how == "cut at a batch" and path.suffix != ".log"):
        return False
    place = draw.randrange(len(data))
    if how == "empty":
        data.clear()
    elif how == "flip":
        data[place] ^= 1 << draw.randrange(8)
    elif how == "zero":
        end = min(place + draw.choice((1, 16, 512, 4096)), len(data))
        data[place:end] = bytes(end - place)
    elif how == "cut":
        del data[place:]
    elif how == "garbage":
        end = min(place + draw.choice((4, 64, 512)), len(data))
        data[place:end] = draw.randbytes(end - place)
    else:
        _cut_at_a_batch(data, draw)
    path.write_bytes(data)
    return True


def _cut_at_a_batch(data: bytearray, draw: random.Random) -> None:
    places = [0]
    while places[-1] + 12 <= len(data) and (size := int.from_bytes(data[places[-1] + 8 : places[-1] + 12], "big")):
        places.append(places[-1] + 12 + size)
    del data[draw.choice(places) :]
