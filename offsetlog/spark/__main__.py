"""`python -m offsetlog.spark <job>`, and the file for spark-submit: the same commands as `offsetlog spark <job>`."""

from __future__ import annotations

import sys

from offsetlog.__main__ import main

if __name__ == "__main__":
    sys.argv[1:1] = ["spark"]
    sys.exit(main())
