"""The recordings of tests/data/wire that are made here.

    python -m tests.wire.recordings HOST:PORT            records all of them from the Kafka 4.3.0 that listens there
    python -m tests.wire.recordings HOST:PORT topics     one file

The broker is one node that nobody else uses, with the settings of tests/kafka/broker.py, and those of SETTINGS for a
file that is named there, which is recorded only where it is named.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from offsetlog.coordinator.coordinator import CoordinatorConfig
from tests.coordinator.golden import DATA

from . import cluster_cases, group_cases, member_cases, size_cases, topic_cases
from .player import made_topics
from .recorder import Recorder

FILES = {
    **cluster_cases.FILES,
    **group_cases.FILES,
    **member_cases.FILES,
    **size_cases.FILES,
    **topic_cases.FILES,
}
#: Further settings of the broker of a file.
SETTINGS = dict.fromkeys(size_cases.FILES, size_cases.SETTINGS)
PLAIN = [name for name in FILES if name not in SETTINGS]
SUFFIX = b"0a1b2c3d"


def coordinator_of(settings: Mapping[str, str]) -> CoordinatorConfig:
    """The coordinator of the server that plays what was recorded with these settings."""
    config = CoordinatorConfig(initial_rebalance_delay=0)
    return replace(config, max_size=int(settings.get("group.max.size", config.max_size)))


def record(address: tuple[str, int], values: dict[str, bytes | None], name: str) -> list[dict[str, Any]]:
    """The cases of one file, with the answers of the broker."""
    recorder = Recorder(address, values)
    try:
        for fill in FILES[name]:
            fill(recorder)
    finally:
        recorder.close()
    return recorder.cases


def written(cases: Iterable[dict[str, Any]]) -> str:
    """The text of a file: a line a step."""
    out = []
    for case in cases:
        head = json.dumps({name: each for name, each in case.items() if name != "steps"}, ensure_ascii=False)
        steps = ",\n".join("   " + json.dumps(each, ensure_ascii=False) for each in case["steps"])
        out.append(f'  {head[:-1]}, "steps": [\n{steps}]}}')
    return '{"recorded_from": "Apache Kafka 4.3.0", "scenarios": [\n' + ",\n".join(out) + "\n]}\n"


def main(bootstrap: str, *names: str) -> None:
    host, _, port = bootstrap.rpartition(":")
    address = (host, int(port))
    # Another one each time: a broker may be recorded from twice.
    values = made_topics(address, secrets.token_hex(4).encode())
    for name in names or PLAIN:
        (DATA / f"{name}.json").write_text(written(record(address, values, name)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
