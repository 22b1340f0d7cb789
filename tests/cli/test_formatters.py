"""`dump --formatter` prints, byte for byte, what Kafka's own formatters printed of the same logs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("typer")

from conformance.kafka_answers import _ENTRY, _GROUP_ENTRY, _entries, lines_of
from conformance.scenarios import Scenario, having
from test_cli_read import call

from offsetlog._native.codec import partition_for

FILES = {"offsets": "formatter-offsets.txt", "groups": "formatter-groups.txt"}
CASES = [(scenario, kind) for kind, name in FILES.items() for scenario in having(name)]


def version_of(scenario: Scenario) -> str:
    """The Kafka whose formatter was asked: the scenario's own; the last of those of an upgrade."""
    name = scenario.path.name
    if scenario.name.startswith("kafka-4.3.0/"):
        return "4.3.0"
    return "3.9.1" if name.startswith("upgraded") else name.partition("-")[0]


def documents(text: str) -> str:
    """The objects that 3.9 prints one after the other, one a line."""
    found, decoder, position = [], json.JSONDecoder(), 0
    while position < len(text):
        if heading := re.compile(r"\n?# partition \d+\n").match(text, position):
            position = heading.end()
            continue
        end = decoder.raw_decode(text, position)[1]
        found.append(text[position:end] + "\n")
        position = end
    return "".join(found)


def in_turns(path: Path, pattern: re.Pattern[str], partitions: int) -> str:
    """What 0.8 and 0.9 print of all partitions in turns, partition by partition."""
    entries = [text for _, text in _entries(path, pattern)]
    entries.sort(key=lambda text: partition_for(pattern.match(text)["group"], partitions))
    return "".join(text + "\n" for text in entries)


def printed(scenario: Scenario, kind: str) -> str:
    """Kafka's own lines, without what the program that made the data put between them."""
    path = scenario.expected(FILES[kind])
    version = version_of(scenario)
    if version == "4.3.0":
        return "".join(line.split("\t", 2)[2] + "\n" for line in lines_of(path))
    text = path.read_bytes().decode()
    if version == "3.9.1":
        return documents(text.rstrip("\n"))
    if version.startswith(("0.8", "0.9")):
        return in_turns(path, _ENTRY if kind == "offsets" else _GROUP_ENTRY, 4)
    return re.sub(r"^# partition \d+\n", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize(("scenario", "kind"), CASES, ids=lambda each: getattr(each, "name", each))
def test_the_lines_are_kafkas(scenario, kind, capsys):
    code, out, _ = call(capsys, "dump", scenario.log, "--formatter", kind, "--kafka", version_of(scenario))
    assert code in {0, 1}
    assert out == printed(scenario, kind)
    if version_of(scenario) == "0.8.2.2":
        assert call(capsys, "dump", scenario.log, "--formatter", "old")[1] == out
    if version_of(scenario) == "4.3.0":
        assert call(capsys, "dump", scenario.log, "--formatter", kind)[1] == out
