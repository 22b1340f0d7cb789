"""Checks what is in a wheel: python tests/wheel_contents.py WHEEL.

It must hold the engine's library once, the extensions, a stub beside each of them, `py.typed` and the licence; no
sources of extensions, and nothing for debuggers.  Beside the package stand the name that PySpark
looks for, and the man page.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import PurePosixPath

PACKAGES = ("offsetlog", "pyspark_offsetlog")
FORBIDDEN = {".c", ".h", ".pyx", ".pxd", ".o", ".a"}
LIBRARY = "offsetlog/_native/liboffsetlog.so."
#: The size of extensions and library, unpacked.
NATIVE_BYTES_MAX = 6_000_000
#: The first of these stands in every object with debug information, the second in every one with all its symbols.
SECTIONS_FOR_DEBUGGERS = (b".debug_info\0", b".symtab\0")


def problems_of(contents: dict[str, bytes]) -> list[str]:
    """Returns what is wrong with a wheel that holds these files, one line for each problem."""
    paths = [PurePosixPath(name) for name in contents]
    problems = [f"{path} does not belong into a wheel" for path in paths if path.suffix in FORBIDDEN]
    problems += [f"{path} is outside the package" for path in paths if not path.parts[0].startswith(PACKAGES)]
    libraries = [name for name in contents if name.startswith(LIBRARY)]
    if len(libraries) != 1:
        problems.append(f"{len(libraries)} files begin with {LIBRARY}: the engine is linked once")
    extensions = [path for path in paths if path.suffix == ".so"]
    if not extensions:
        problems.append("there is no extension")
    for extension in extensions:
        stub = extension.with_name(extension.name.partition(".")[0] + ".pyi")
        if stub not in paths:
            problems.append(f"{stub} is missing")
    native = [*libraries, *map(str, extensions)]
    for name in native:
        kept = [section for section in SECTIONS_FOR_DEBUGGERS if section in contents[name]]
        problems += [f"{name} was not stripped: it has {section[:-1].decode()}" for section in kept]
    size = sum(len(contents[name]) for name in native)
    if size > NATIVE_BYTES_MAX:
        problems.append(f"extensions and library have {size:,} bytes, at most {NATIVE_BYTES_MAX:,} are allowed")
    if PurePosixPath("offsetlog/py.typed") not in paths:
        problems.append("offsetlog/py.typed is missing")
    if not any(path.match("*.data/data/share/man/man1/offsetlog.1") for path in paths):
        problems.append("the man page is missing")
    if not any(path.name == "LICENSE" for path in paths):
        problems.append("the licence is missing")
    return problems


if __name__ == "__main__":
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        found = problems_of({name: wheel.read(name) for name in wheel.namelist() if not name.endswith("/")})
    for problem in found:
        print(f"{sys.argv[1]}: {problem}", file=sys.stderr)
    sys.exit(bool(found))
