"""Finds a manager by its name: `offset.storage` names an entry point of the group `offsetlog.managers`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from offsetlog.errors import ArgumentTypeError, ConfigError
from offsetlog.manager.interface import OffsetManager

GROUP = "offsetlog.managers"
#: The property of a broker that chooses the manager.
STORAGE = "offset.storage"
DEFAULT = "log"
#: The calls that every manager has.
CALLS = tuple(name for name in vars(OffsetManager) if not name.startswith("_"))


def _found() -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        known = found.setdefault(entry.name, [])
        # A distribution that is installed twice, in place and as a wheel, names the same factory twice.
        if all(each.value != entry.value for each in known):
            known.append(entry)
    return found


def available_managers() -> dict[str, str]:
    """Returns the origin of each manager by name, as "module:factory".

    Raises:
        ConfigError: two distributions claim a name.
    """
    return {name: _only(name, entries).value for name, entries in sorted(_found().items())}


def _only(name: str, entries: list[EntryPoint]) -> EntryPoint:
    if len(entries) > 1:
        claims = ", ".join(sorted(entry.value for entry in entries))
        text = f"{STORAGE}={name}: several managers have this name: {claims}"
        raise ConfigError(f"{text}; uninstall all but one")
    return entries[0]


def create_manager(settings: Mapping[str, Any]) -> OffsetManager:
    """Creates the manager that a broker's properties select; does not start it.

    Args:
        settings: the broker's properties.  `offset.storage` names the manager, "log" by default.  All properties are
            passed to the manager's factory.

    Raises:
        ArgumentTypeError: the settings are not a mapping.
        ConfigError: no manager has the name, or two managers claim it; or the manager cannot be imported; or its
            factory does not return an OffsetManager; or a property has a value that is not allowed.
    """
    given: object = settings
    if not isinstance(given, Mapping):
        kind = type(given).__name__
        raise ArgumentTypeError(f"the settings must be a mapping of a broker's properties by name, not {kind}")
    name = settings.get(STORAGE, DEFAULT)
    entries = _found().get(name) if isinstance(name, str) else None
    if entries is None:
        known = ", ".join(sorted(_found())) or "none"
        raise ConfigError(f"{STORAGE}={name!r} is not an installed manager; installed: {known}")
    entry = _only(name, entries)
    try:
        factory = entry.load()
    except (ImportError, AttributeError) as failure:
        raise ConfigError(f"{STORAGE}={name}: {entry.value} cannot be imported: {failure}") from failure
    manager: OffsetManager = factory(settings)
    # The class is checked, not the object: a property of the object may raise before the start.
    lacks = [each for each in CALLS if not hasattr(type(manager), each)]
    if lacks:
        kind = type(manager).__name__
        raise ConfigError(f"{STORAGE}={name}: {entry.value} returned a {kind}, which has no {', '.join(lacks)}")
    return manager
