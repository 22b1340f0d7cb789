"""`python -m benchmarks engine` (or `server`, `spark`, `zookeeper`) runs workloads and prints figures and goals."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suite", choices=["engine", "server", "spark", "zookeeper"], help="the suite to run")
    parser.add_argument("--smoke", action="store_true", help="use tiny sizes, which take seconds; check no goal")
    parser.add_argument("--only", metavar="NAME", action="append", help="run workload NAME and NAME/...; repeatable")
    parser.add_argument("--list", action="store_true", help="print the workloads and their goals; run none")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the order of keys (default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="how long a sustained run lasts at least (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds, at least 5 (default: %(default)s)")
    parser.add_argument("--directory", type=Path, help="a folder on the disk to measure (default: a temporary one)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures into this file, as JSON")
    parser.add_argument("--profile", action="store_true", help="profile the first line of each workload")
    return parser.parse_args()


def _is_named(name: str, only: list[str]) -> bool:
    # The name disk/100 does not select disk/1000; the name disk selects both.
    return any(word in ("", name) or name.startswith(f"{word}/") for word in only)


def main() -> int:
    arguments = _arguments()
    try:
        import_module(f"benchmarks.{arguments.suite}")  # registers the workloads
        from benchmarks.machine import describe
        from benchmarks.suite import run_suite
        from benchmarks.workload import REGISTRY, Options
    except ImportError as failure:
        hint = "run pip install '.[benchmark,spark,zookeeper]' in the source tree, and build the extensions"
        print(f"benchmarks: {failure}; {hint}", file=sys.stderr)
        return 2
    only = arguments.only or [""]
    chosen = [found for found in REGISTRY if _is_named(found.name, only) and (found.smoke or not arguments.smoke)]
    if not chosen:
        print(f"benchmarks: no workload is named {' or '.join(only)}; see --list", file=sys.stderr)
        return 2
    if arguments.list:
        for found in chosen:
            print(f"{found.name:32} {found.goals}")
        return 0
    directory = (arguments.directory or Path(tempfile.gettempdir())).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    options = Options(
        arguments.seed, arguments.smoke, arguments.seconds, arguments.rounds, directory, arguments.profile
    )
    machine = describe(directory)
    print("; ".join(f"{name}: {value}" for name, value in machine.items()))
    print(f"command: python -m benchmarks {' '.join(sys.argv[1:])}")
    print("each line: median (slowest - fastest round), first line / this line, rounds x operations, digest, note\n")
    suite = run_suite(options, chosen)
    _print_ratio_of_sizes(suite.reports)
    missed = [f"{report.name}: {goal.text}" for report in suite.reports for goal in report.goals if not goal.met]
    if not options.smoke:
        print(f"goals missed: {len(missed)}", *missed, sep="\n   ")
    if arguments.json is not None:
        written: dict[str, Any] = {"machine": machine, "options": {**asdict(options), "directory": str(directory)}}
        written |= {"workloads": [report.as_dict() for report in suite.reports], "failures": suite.failures}
        arguments.json.write_text(json.dumps(written, indent=1) + "\n")
    for name in suite.failures:
        print(f"benchmarks: {name} failed", file=sys.stderr)
    return 1 if suite.failures else 0


def _print_ratio_of_sizes(reports: list[Any]) -> None:
    by_name = {report.name: report for report in reports}
    hot, cold = by_name.get("commit_one/1e4"), by_name.get("commit_one/1e7")
    if hot is None or cold is None:
        return
    for name in ("offsetlog", "LMDB, sync off, writable map", "bare C loop"):
        ratio = cold.figure(name).median / hot.figure(name).median
        print(f"commit_one, 10^7 shuffled keys to 10^4 hot keys: {name} keeps {ratio:.0%} of its rate")


if __name__ == "__main__":
    sys.exit(main())
