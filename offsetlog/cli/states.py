"""Reads the log partitions of a path with a progress bar, and reports what could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from offsetlog.cli.output import complain, count_text, progress
from offsetlog.directory.reading import PartitionState, Tail, find_partitions, read_state, whole_size
from offsetlog.errors import OffsetLogError, PossibleLossError
from offsetlog.lifecycle.losses import losses_at_open

#: How many problems are printed one by one; more are only counted.
PROBLEMS_TOLD = 10


def complain_of_tail(tail: Tail) -> None:
    """Reports the unfinished tail of a log; does not report zeros, which are preallocated space."""
    if not tail.zeros:
        complain(f"an unfinished tail of {tail.size} bytes: {tail.damage}")


@dataclass(frozen=True, slots=True)
class States:
    """The log partitions of a path, as they were read."""

    path: Path
    partitions: list[PartitionState]

    def complain(self) -> int:
        """Reports on the standard error what could not be read or is missing; returns exit code 1 in these cases.

        The exit code is 0 if only unfinished tails and possible losses are reported.  An unfinished tail is not damage,
        because a crash or a running writer leaves one.
        """
        losses = self._losses()
        places = {(each.path, each.position) for each in losses}
        for state in self.partitions:
            if state.tail is not None and (str(state.tail.path), state.tail.position) not in places:
                complain_of_tail(state.tail)
        problems: list[OffsetLogError] = [
            each for state in self.partitions for each in [*state.damages, *state.refused]
        ]
        places_named = {(each.path, each.position) for each in problems}
        problems += [each for each in losses if each.position is None or (each.path, each.position) not in places_named]
        for problem in problems[:PROBLEMS_TOLD]:
            complain(str(problem))
        if len(problems) > PROBLEMS_TOLD:
            complain(f"{count_text(len(problems), 'problem')} in total; `offsetlog verify {self.path}` lists all")
        return 1 if any(not isinstance(problem, PossibleLossError) for problem in problems) else 0

    def _losses(self) -> list[OffsetLogError]:
        # Only a whole log directory has witnesses, which say what it should hold.
        place = self.path.absolute()
        if not place.is_dir() or any(state.files.directory == place for state in self.partitions):
            return []
        return losses_at_open(self.path)


def read_states(path: Path) -> States:
    """Reads every log partition of a path; raises the errors of `find_partitions` and `read_state`."""
    found = find_partitions(path)
    with progress("reading", whole_size(found)) as advance:
        return States(path, [read_state(each, advance) for each in found])
