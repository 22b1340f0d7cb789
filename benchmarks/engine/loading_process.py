"""The process whose memory is measured.  It opens an empty store, and loads another one when it gets the command."""

from __future__ import annotations

import json
import sys

import offsetlog
from benchmarks.opening import BY_HAND, Opened


def main() -> None:
    path, empty, partitions = sys.argv[1:]
    with offsetlog.open(empty, partitions=int(partitions), maintenance=BY_HAND):
        print("empty", flush=True)
        sys.stdin.readline()
        with offsetlog.open(path, maintenance=BY_HAND) as store:
            print("loaded", flush=True)
            sys.stdin.readline()
            found = {"account": store.memory()["total"], "digest": str(store.digest())}
            print(json.dumps({**found, **Opened.of(store).as_dict()}), flush=True)


if __name__ == "__main__":
    main()
