"""Another PySpark than the environment's, for packages that have no version for that one: installed once with pip.

It lives in ``.cache/pyspark-VERSION`` of the repository, and goes before the environment's in PYTHONPATH.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from maven_packages import FETCH_SECONDS, POMS, cache, skip_or_fail


def pyspark_or_skip(version: str) -> Path:
    """Returns its directory; where it cannot be had, skips the test, or fails it where packages are required."""
    home = cache() / f"pyspark-{version}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with (home.parent / "pyspark.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.is_dir():
            _install(version, home)
    return home


def _install(version: str, home: Path) -> None:
    partial = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    options = ["--no-deps", "--no-build-isolation", "--require-hashes", "--target", str(partial / "site")]
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", *options]
    try:
        done = subprocess.run(
            [*command, "-r", str(POMS / f"pyspark-{version}.txt")],
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            skip_or_fail(f"pip could not install PySpark {version}: {done.stderr.strip()[-600:]}")
        (partial / "site").rename(home)
    except subprocess.TimeoutExpired:
        skip_or_fail(f"pip had not installed PySpark {version} after {FETCH_SECONDS:.0f} s")
    finally:
        shutil.rmtree(partial, ignore_errors=True)
