"""Runs `offsetlog spark <job>`, as `python -m offsetlog.spark <job>` or as the program of spark-submit."""

from __future__ import annotations

import sys

from offsetlog.__main__ import main

if __name__ == "__main__":
    sys.argv[1:1] = ["spark"]
    sys.exit(main())
