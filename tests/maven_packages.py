"""Packages of Java that tests run: named by a POM, fetched once with Maven, and compared with known checksums.

    python tests/maven_packages.py              fetches all that packages/ names
    python tests/maven_packages.py --sums NAME  fetches one again, and writes the checksums of its files

The packages of ``packages/NAME.xml`` live in ``.cache/NAME-DIGEST/`` of the repository. ``packages/NAME.sha256`` says
which files these are: another file, or another content, is refused.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

HERE = Path(__file__).resolve().parent
POMS = HERE / "packages"
FETCH_SECONDS = 900.0
"""How long Maven may take for the first download."""
REQUIRED = "OFFSETLOG_REQUIRE_PACKAGES"
"""With this variable at 1 a test whose packages cannot be had fails."""


class PackagesMissing(Exception):
    """Java, Maven or the packages are not there, or are not the known ones; the message says which."""


def packages_or_skip(name: str) -> list[Path]:
    """Returns the jars of ``packages/NAME.xml``; without them skips the test, or fails it where they are required."""
    try:
        java()
        return find_jars(POMS / f"{name}.xml")
    except PackagesMissing as missing:
        skip_or_fail(str(missing))


def skip_or_fail(reason: str) -> NoReturn:
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(f"packages are required here ({REQUIRED}=1): {reason}")
    pytest.skip(reason)


def java() -> str:
    """Returns the program; raises PackagesMissing."""
    found = shutil.which("java")
    if found is None:
        raise PackagesMissing("no java on this machine (version 17 or later is needed)")
    return found


def find_jars(pom: Path) -> list[Path]:
    """Returns the packages that a POM names, fetching them where they are not there yet. Quick when they are.

    Safe against other processes doing the same at the same time. Raises PackagesMissing.
    """
    home = cache() / f"{pom.stem}-{_digest(pom)[:12]}"
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PackagesMissing(f"no place for the packages of {pom.name}: {error}") from error
    with (home.parent / f"{pom.stem}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.is_dir():
            _fetch(pom, home)
    return sorted(home.glob("*.jar"))


def cache() -> Path:
    """Returns the place for packages in the working copy, also when the tests run from a copy inside it."""
    return next((parent for parent in HERE.parents if (parent / ".git").exists()), HERE.parent) / ".cache"


def _sums_of(pom: Path) -> Path:
    return pom.with_suffix(".sha256")


def _digest(pom: Path) -> str:
    sums = _sums_of(pom)
    return hashlib.sha256(pom.read_bytes() + (sums.read_bytes() if sums.exists() else b"")).hexdigest()


def _fetch(pom: Path, home: Path) -> None:
    """Lets Maven copy the packages beside ``home`` and moves them there whole: an interrupted fetch leaves nothing."""
    partial = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    try:
        _run_maven(pom, partial)
        _compare(partial, _sums_of(pom))
        for former in home.parent.glob(f"{pom.stem}-" + "[0-9a-f]" * 12):
            shutil.rmtree(former, ignore_errors=True)
        partial.rename(home)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _run_maven(pom: Path, directory: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise PackagesMissing(f"the packages of {pom.name} are not here, and there is no Maven (mvn) to fetch them")
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={directory}", "-DincludeScope=runtime"]
    command = [maven, "-B", "-q", "-C", "-Dstyle.color=never", "-f", str(pom), *goal]
    # Java options may say how Maven reaches its repositories, and cannot run with sanitizers preloaded.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=FETCH_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise PackagesMissing(f"Maven had not fetched {pom.name} after {FETCH_SECONDS:.0f} s") from late
    if done.returncode != 0:
        raise PackagesMissing(f"Maven could not fetch {pom.name}: {(done.stdout + done.stderr).strip()[-600:]}")


def _sums(directory: Path) -> str:
    lines = (f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.name}\n" for jar in sorted(directory.glob("*.jar")))
    return "".join(lines)


def _compare(directory: Path, sums: Path) -> None:
    known = set(sums.read_text().splitlines()) if sums.exists() else set()
    different = sorted(line.partition("  ")[2] for line in known ^ set(_sums(directory).splitlines()))
    if different:
        raise PackagesMissing(f"what Maven fetched is not what {sums.name} says: {', '.join(dict.fromkeys(different))}")


def _write_sums(pom: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        _run_maven(pom, Path(directory))
        _sums_of(pom).write_text(_sums(Path(directory)))


def main(arguments: list[str]) -> int:
    try:
        if arguments[:1] == ["--sums"]:
            _write_sums(POMS / f"{arguments[1]}.xml")
            return 0
        for pom in sorted(POMS.glob("*.xml")):
            print(f"{pom.stem}: {len(find_jars(pom))} packages")
    except PackagesMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
