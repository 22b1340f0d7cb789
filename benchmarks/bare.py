"""Compiles and runs a bare C loop, which shows how good a figure the memory of this machine allows."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from pytest_benchmark.stats import Stats

from benchmarks.keys import KeySpace
from benchmarks.results import Figure

SOURCE = Path(__file__).with_name("bare_loop.c")


class BareLoop:
    """The compiled program, with a directory for its files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.program = directory / "bare_loop"
        compiler = os.environ.get("CC", "cc").split()
        subprocess.run([*compiler, "-O3", "-std=gnu11", "-o", str(self.program), str(SOURCE)], check=True)

    def _run(self, *words: object) -> list[list[str]]:
        # Sanitizers that were preloaded into Python are not for this program.
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        run = subprocess.run(
            [str(self.program), *map(str, words)], check=True, capture_output=True, text=True, env=environment
        )
        rounds = [line.split() for line in run.stdout.splitlines()]
        return rounds[1:]

    def _figure(self, name: str, unit: str, rounds: list[list[str]], note: str = "") -> Figure:
        stats = Stats()
        for seconds, *_ in rounds:
            stats.update(float(seconds))
        return Figure.of_rounds(name, unit, stats, int(rounds[0][1]), note)

    def append(self, keys: KeySpace, operations: int, rounds: int, seed: int) -> Figure:
        """Writes one-record batches into a mapped file, and random cells of a table that has the size of `keys`."""
        pairs = keys.groups * keys.topics
        file = self.directory / "bare.log"
        lines = self._run("append", file, pairs, keys.partitions, operations, rounds, seed)
        file.unlink()
        return self._figure("bare C loop", "offsets/s", lines, "encode, CRC, 3 dependent reads; no Python")

    def fetch(self, keys: KeySpace, operations: int, rounds: int, seed: int) -> Figure:
        """Makes three dependent reads for each random key, one key after the other."""
        pairs = keys.groups * keys.topics
        lines = self._run("fetch", pairs, keys.partitions, operations, rounds, seed)
        return self._figure("bare C loop", "offsets/s", lines, "3 dependent reads; no Python")

    def load(self, keys: KeySpace, segments: list[Path], rounds: int) -> tuple[Figure, int]:
        """Reads segments into a table; returns the figure, and the sum of the offsets that it read."""
        lines = self._run("load", keys.groups * keys.topics, keys.partitions, rounds, *segments)
        rate = int(lines[0][3]) / min(float(seconds) for seconds, *_ in lines) / 1e9
        note = f"CRC, decode, 3 dependent reads; {rate:.2f} GB/s at best"
        figure = self._figure("bare C loop", "records/s", lines, note)
        return figure, int(lines[0][2])
