"""Makes the settings of a server from the properties in a file and on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from offsetlog.config import MaintenanceConfig
from offsetlog.coordinator.coordinator import CoordinatorConfig
from offsetlog.errors import ConfigError
from offsetlog.manager.settings import ManagerSettings, with_property
from offsetlog.server.connection_limits import ConnectionLimits
from offsetlog.server.node import TopicDefaults
from offsetlog.server.properties import (
    PROPERTIES,
    Address,
    Given,
    Property,
    Value,
    in_order,
    value_of,
)
from offsetlog.server.server import ServerSettings
from offsetlog.topics.compaction import CompactionSettings
from offsetlog.topics.settings import TopicLogSettings

#: The address of a listener that names no host.
ALL_ADDRESSES = "0.0.0.0"

#: A group without members keeps its positions for a week, unless `offsets.retention.minutes` is set.
RETENTION_MS = 7 * 24 * 3600 * 1000

#: The prefixes of "host" and "port" in ServerSettings, by the `places` of a property.
_PREFIXES = {"listener": "", "advertised": "advertised_", "metrics": "metrics_"}


@dataclass(slots=True)
class _Draft:
    # The settings built so far.
    manager: ManagerSettings
    parts: dict[str, Any] = field(
        default_factory=lambda: {
            "limits": ConnectionLimits(),
            "coordinator": CoordinatorConfig(),
            "topics": TopicDefaults(),
            "topic_logs": TopicLogSettings(),
            "compaction": CompactionSettings(),
        }
    )
    own: dict[str, Any] = field(default_factory=dict)

    def change(self, name: str, found: Property, value: Value) -> None:
        for place in found.places:
            part, _, attribute = place.partition(".")
            if part == "manager":
                self.manager = with_property(self.manager, name, cast(int | str | bool, value))
            elif attribute:
                given = found.in_units(value)
                self.parts[part] = replace(self.parts[part], **{attribute: given})
            else:
                self._change_own(part, value)

    def _change_own(self, place: str, value: Value) -> None:
        if place == "path":
            self.manager = replace(self.manager, path=Path(str(value)))
        elif isinstance(value, Address):
            prefix = _PREFIXES[place]
            self.own[f"{prefix}host"] = value.host or ALL_ADDRESSES
            self.own[f"{prefix}port"] = value.port
        else:
            self.own[place] = value


def settings_of(
    given: Mapping[str, Given], path: Path | None = None, *, allow_any_host: bool = False
) -> ServerSettings:
    """Builds the settings of a server from its properties.

    Args:
        given: the properties, by name.
        path: the log directory; None takes the one in `log.dirs`.
        allow_any_host: see ServerSettings.

    Raises:
        ConfigError: a property is unknown, is out of range or contradicts another (the message
            names the file and line, or the option); or no log directory is given.
    """
    if path is None and "log.dirs" not in given:
        raise ConfigError("no log directory is given: name it as PATH, or set log.dirs in the --config file")
    draft = _Draft(
        ManagerSettings(
            path=Path() if path is None else path,
            # A new directory gets PARTITIONS_DEFAULT of offsetlog.config; any other keeps its own
            # number.
            partitions=None,
            durability="disk",
            accept_while_loading=False,
            maintenance=MaintenanceConfig(retention_ms=RETENTION_MS),
        )
    )
    for name, each in in_order(given):
        value = value_of(name, each)
        try:
            draft.change(name, PROPERTIES[name], value)
        except ConfigError as failure:
            raise ConfigError(f"{each.place}: {name}: {failure.message}") from failure
    if path is not None:
        draft.manager = replace(draft.manager, path=path)
    _check_together(given, draft)
    properties = {name: each.text for name, each in given.items()}
    try:
        return ServerSettings(
            manager=draft.manager,
            allow_any_host=allow_any_host,
            properties=properties,
            **draft.parts,
            **draft.own,
        )
    except ConfigError as failure:
        # ServerSettings itself refuses only addresses that are not allowed.
        names = ("listeners", "metrics.listener")
        places = [given[name].place for name in names if name in given]
        raise ConfigError(f"{' or '.join(places)}: {failure.message}") from failure


def _check_together(given: Mapping[str, Given], draft: _Draft) -> None:
    groups: CoordinatorConfig = draft.parts["coordinator"]
    shortest, longest = groups.min_session_timeout, groups.max_session_timeout
    if shortest > longest:
        names = ("group.min.session.timeout.ms", "group.max.session.timeout.ms")
        place = next(given[name].place for name in names if name in given)
        raise ConfigError(f"{place}: {names[0]} ({shortest}) must not be greater than {names[1]} ({longest})")
    advertised = draft.own.get("advertised_host"), draft.own.get("advertised_port")
    if advertised[0] in (ALL_ADDRESSES, "::") or advertised[1] == 0:
        place = given["advertised.listeners"].place
        raise ConfigError(f"{place}: advertised.listeners must name one host and a port other than 0")
