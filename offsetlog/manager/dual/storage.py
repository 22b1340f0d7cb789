"""The storages of a dual manager."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from offsetlog.manager.interface import OffsetManager


class Storage(OffsetManager, Protocol):
    """A manager that can list its groups, or at least the groups that this process leads."""

    def groups(self) -> Iterable[str]:
        """Returns the names of the groups."""
