"""Prints how long each file of tests takes, as a page of Markdown, from reports that pytest wrote with --junitxml.

    make test-times       runs the first two tiers with reports, and writes docs/test-times.md
    python tests/times.py --tier gate=gate.xml --tier ci=ci.xml

Seconds are the sum over the tests of a file, fixtures included. Several workers run side by side, so that a run takes
less than their sum.
"""

from __future__ import annotations

import argparse
import ast
import xml.etree.ElementTree as ET
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADING = """# The cost of each file of tests

The times are seconds for each file. A time is the sum over the tests of the file, including their fixtures, as pytest
reports it. The numbers of tests are in brackets.

* The columns "gate" and "ci" show these tiers ([CONTRIBUTING.md](../CONTRIBUTING.md)) on two cores: "gate" in two
  processes, "ci" in three. A test that waits for a broker or for Spark therefore takes longer there than alone. "-"
  means that the file has no test in that tier.
* The column "depth" shows the values that are different at full depth (`make test-long`).

This page is written by `make test-times`, which should have an idle machine.
"""


@dataclass
class Report:
    """Seconds and number of tests by file."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    count: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def cell(self, name: str) -> str:
        """Returns what stands in the table."""
        return f"{self.seconds[name]:.1f} ({self.count[name]})" if self.count[name] else "-"

    def total(self) -> str:
        """Returns what stands in the last line."""
        return f"{sum(self.seconds.values()):.0f} ({sum(self.count.values()):,})"


def file_of(class_name: str) -> str:
    """Returns the file that a report names as `tests.store.test_open`, perhaps with a class."""
    parts = class_name.split(".")
    while parts and not parts[-1].startswith("test_"):
        parts.pop()
    return "/".join(parts) + ".py"


def read(path: Path) -> Report:
    """Reads a report; tests that were skipped do not count."""
    report = Report()
    for case in ET.parse(path).iter("testcase"):
        if case.find("skipped") is None:
            name = file_of(case.get("classname", ""))
            report.seconds[name] += float(case.get("time", 0))
            report.count[name] += 1
    return report


def depth_of(name: str) -> str:
    """Returns what a file does more of at full depth: the names that it gives the results of `by_depth`."""
    path = ROOT / name
    if not path.exists():
        return "deleted"
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assign):
            calls = [each for each in ast.walk(node.value) if isinstance(each, ast.Call)]
            for call in (each for each in calls if getattr(each.func, "id", "") == "by_depth"):
                given = {word.arg: ast.unparse(word.value) for word in call.keywords}
                found.append(f"{ast.unparse(node.targets[0])}: {given['gate']}, at full depth {given['long']}")
    return "; ".join(found)


def page(reports: dict[str, Report]) -> str:
    """Returns the page, with a column for each tier."""
    names = sorted({name for report in reports.values() for name in report.count})
    names.sort(key=lambda name: -sum(report.seconds[name] for report in reports.values()))
    lines = [HEADING, "| file | " + " | ".join(reports) + " | depth |", "|---" * (len(reports) + 2) + "|"]
    for name in names:
        cells = [report.cell(name) for report in reports.values()]
        # The check of citations refuses a path that does not exist.
        shown = f"`{name}`" if (ROOT / name).exists() else Path(name).stem
        lines.append(f"| {shown} | " + " | ".join(cells) + f" | {depth_of(name)} |")
    lines.append("| all | " + " | ".join(report.total() for report in reports.values()) + " | |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tier", action="append", default=[], metavar="NAME=FILE", help="the report of one tier")
    arguments = parser.parse_args()
    named = (each.partition("=") for each in arguments.tier)
    print(page({name: read(Path(path)) for name, _, path in named}), end="")


if __name__ == "__main__":
    main()
