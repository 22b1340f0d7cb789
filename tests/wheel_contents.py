"""Checks what is in a wheel: python tests/wheel_contents.py WHEEL.

It must hold the extensions, a stub beside each of them, `py.typed` and the licence; no sources of extensions.  Beside
the package stand the name that PySpark looks for, and the man page.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import PurePosixPath

PACKAGES = ("offsetlog", "pyspark_offsetlog")
FORBIDDEN = {".c", ".h", ".pyx", ".pxd", ".o", ".a"}


def problems_of(names: list[str]) -> list[str]:
    paths = [PurePosixPath(name) for name in names]
    problems = [f"{path} does not belong into a wheel" for path in paths if path.suffix in FORBIDDEN]
    problems += [f"{path} is outside the package" for path in paths if not path.parts[0].startswith(PACKAGES)]
    extensions = [path for path in paths if path.suffix == ".so"]
    if not extensions:
        problems.append("there is no extension")
    for extension in extensions:
        stub = extension.with_name(extension.name.partition(".")[0] + ".pyi")
        if stub not in paths:
            problems.append(f"{stub} is missing")
    if PurePosixPath("offsetlog/py.typed") not in paths:
        problems.append("offsetlog/py.typed is missing")
    if not any(path.match("*.data/data/share/man/man1/offsetlog.1") for path in paths):
        problems.append("the man page is missing")
    if not any(path.name == "LICENSE" for path in paths):
        problems.append("the licence is missing")
    return problems


if __name__ == "__main__":
    found = problems_of(zipfile.ZipFile(sys.argv[1]).namelist())
    for problem in found:
        print(f"{sys.argv[1]}: {problem}", file=sys.stderr)
    sys.exit(bool(found))
