"""The directories that real brokers wrote:

all of the shared data where it is there, and the small part in `tests/data/`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BUNDLED = REPOSITORY / "tests" / "data"
SHARED = Path(os.environ.get("OFFSETLOG_SHARED", REPOSITORY.parent / "shared")) / "data"


@dataclass(frozen=True)
class Scenario:
    """One directory:

    `log/` as a broker left it, `expected/` what that Kafka said about it.  `name` is "set/scenario".
    """

    name: str
    path: Path

    @property
    def log(self) -> Path:
        """The log directory."""
        return self.path / "log"

    def expected(self, file_name: str) -> Path:
        """A file of Kafka's answers; it need not exist."""
        return self.path / "expected" / file_name


def discover() -> list[Scenario]:
    """Every scenario, sorted by name.

    One that is in both places is taken from the shared data: the bundled one is a copy of it.
    """
    found: dict[str, Scenario] = {}
    for root in (BUNDLED, SHARED):
        for log in sorted(root.glob("*/*/log")):
            name = f"{log.parent.parent.name}/{log.parent.name}"
            found[name] = Scenario(name, log.parent)
    return [found[name] for name in sorted(found)]


SCENARIOS = discover()


def having(*file_names: str) -> list[Scenario]:
    """The scenarios that have at least one of these files in `expected/`."""
    return [each for each in SCENARIOS if any(each.expected(name).exists() for name in file_names)]
