"""The process whose memory is measured: opens an empty store, then loads a written one; each step on command."""

from __future__ import annotations

import sys

import offsetlog


def main() -> None:
    path, empty = sys.argv[1:]
    with offsetlog.open(empty, partitions=50):
        print("empty", flush=True)
        sys.stdin.readline()
        with offsetlog.open(path) as store:
            print("loaded", flush=True)
            sys.stdin.readline()
            print(store.memory()["total"], store.digest(), flush=True)


if __name__ == "__main__":
    main()
