"""An archive with everything that executors need to run offsetlog: packages, and a launcher that finds a Python.

The C extensions cannot be sent with `--py-files`, so they are sent in this archive.  Spark unpacks the archive on each
executor (`spark.archives`).  The archive contains no interpreter.  Its `bin/python` is a script that starts the Python
of the worker's machine, after it has checked that this Python has the same minor version and can load the extensions.
An archive of a `venv` would not do: its `bin/python` is a link, which checks nothing.  A container image, or a conda
environment, contains an interpreter of its own and does not need this archive.

    bin/python, bin/python3                 the launcher
    bin/check_python.py                     the check
    lib/python3.11/site-packages/           offsetlog, its dependencies, and further requested packages
    offsetlog-pack.json                     the contents, and the interpreters that can load them
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

import offsetlog
from offsetlog.errors import ConfigError, MissingFileError, StorageError

#: Packages that executors run besides offsetlog and its dependencies: `migrate` reads ZooKeeper in tasks.
ALSO = ("kazoo",)
#: Packages that come with Spark, in Spark's own version.
OF_SPARK = frozenset({"pyspark", "pyspark-client", "pyspark-connect", "py4j"})
#: The endings of the names of archives that Spark unpacks as tar.gz.
SUFFIXES = (".tar.gz", ".tgz")

_NOT_RUN = frozenset({".pyx", ".pxd", ".c", ".cc", ".cpp", ".h", ".hh", ".hpp", ".a", ".o", ".pyc"})
_GLIBC = re.compile(rb"GLIBC_(\d{1,3})\.(\d{1,3})\b")
#: The oldest glibc that an extension can need; no wheel for Linux supports an older one.
_GLIBC_LEAST = (2, 17)
#: The time of every file in an archive, so that the same packages give the same bytes.  It is in 1980, the earliest
#: time that a zip file can have.
_TIME = 315_532_800
_COMPRESSION = 4


@dataclass(frozen=True, slots=True)
class Packed:
    """The result of `pack`.

    Attributes:
        path: the path of the archive.
        size: the size of the archive, in bytes.
        unpacked_size: the size of its files, in bytes.
        python: the minor version of Python, such as "3.11".
        abi: the ABI of the extensions, as CPython names it: interpreter, version, machine and libc.
        libc: the oldest glibc with which the extensions can be loaded, such as "2.28"; None if the libc is another one.
        packages: the packages in the archive, name -> version.
    """

    path: str
    size: int
    unpacked_size: int
    python: str
    abi: str
    libc: str | None
    packages: dict[str, str]


def pack(output: str | os.PathLike[str], also: Iterable[str] = (), *, overwrite: bool = False) -> Packed:
    """Writes an archive of offsetlog, its dependencies, and further packages of this environment.

    The archive is written under a temporary name, and renamed to `output` when it is complete.

    Args:
        output: the new file, on this machine; its name ends in `.tar.gz` or `.tgz`.
        also: names of installed packages to add, with their dependencies.
        overwrite: whether an existing file is replaced.

    Raises:
        ConfigError: `output` exists or its name has another ending; or the name of a package is invalid; or a package
            is not installed, is installed as a link to its sources, or has no list of its files.
        MissingFileError: the directory to write to does not exist.
        StorageError: the archive cannot be written.

    Can be called from any thread.
    """
    target = Path(output)
    _check_target(target, overwrite=overwrite)
    found = closure(["offsetlog", *(name for name in ALSO if _is_installed(name)), *also])
    files = dict(sorted(_files(found.values()).items()))
    libc = None if "linux-gnu" not in _abi() else needed_glibc(files.values())
    versions = {name: each.version for name, each in sorted(found.items())}
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    libc_text = None if libc is None else ".".join(map(str, libc))
    about = {"python": python, "abi": _abi(), "libc": libc_text, "packages": versions}
    own = _own_files(python, _abi(), libc, about)
    try:
        size = _write(target, own, files, f"lib/python{python}/site-packages", overwrite=overwrite)
        unpacked = sum(path.stat().st_size for path in files.values()) + sum(len(text) for text in own.values())
    except OSError as failure:
        if isinstance(failure, FileExistsError):
            raise ConfigError("the file exists already; --overwrite replaces it", path=target) from failure
        raise StorageError(f"the archive cannot be written: {failure}", errno=failure.errno, path=target) from failure
    return Packed(str(target), size, unpacked, python, _abi(), libc_text, versions)


def _abi() -> str:
    return str(sysconfig.get_config_var("SOABI"))


def _check_target(target: Path, *, overwrite: bool) -> None:
    if not target.name.endswith(SUFFIXES):
        raise ConfigError(
            f"the name must end in {' or '.join(SUFFIXES)}, so that Spark unpacks the archive", path=target
        )
    if not target.parent.is_dir():
        raise MissingFileError("the directory to write to does not exist", path=target.parent)
    if target.is_dir() and not target.is_symlink():
        raise ConfigError("the output must be a file, not a directory", path=target)
    if not overwrite and os.path.lexists(target):
        raise ConfigError("the file exists already; --overwrite replaces it", path=target)


# ---------------------------------------------------------------------------------------------------- which packages


def _is_installed(name: str) -> bool:
    return any(True for _ in metadata.distributions(name=name))


def closure(names: Iterable[str]) -> dict[str, metadata.Distribution]:
    """Returns packages of this environment with all their dependencies, by canonical name, except Spark's packages.

    Raises ConfigError if a package is not installed, or a name is not valid.
    """
    found: dict[str, metadata.Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(_requirement(name), "it was requested") for name in names]
    while waiting:
        wanted, why = waiting.pop()
        name = canonicalize_name(wanted.name)
        if name in OF_SPARK:
            continue
        try:
            each = found.setdefault(name, metadata.distribution(name))
        except metadata.PackageNotFoundError:
            raise ConfigError(f"the package {name} is not installed here, but {why}") from None
        # Adds the dependencies of the package itself, and those of each extra.
        for extra in {"", *wanted.extras} - {extra for known, extra in seen if known == name}:
            seen.add((name, extra))
            waiting += [(needed, f"{name} needs it") for needed in _needed(each, extra)]
    return found


def _requirement(name: str) -> Requirement:
    try:
        return Requirement(name)
    except InvalidRequirement as failure:
        raise ConfigError(f"{name!r} is not the name of a package: {failure}") from None


def _needed(package: metadata.Distribution, extra: str) -> Iterator[Requirement]:
    for text in package.requires or []:
        needed = Requirement(text)
        if needed.marker is None or needed.marker.evaluate({"extra": extra}):
            yield needed


# ------------------------------------------------------------------------------------------------------- their files


def _files(packages: Iterable[metadata.Distribution]) -> dict[str, Path]:
    """Returns the files of packages by their path in site-packages."""
    files: dict[str, Path] = {}
    for each in packages:
        name = canonicalize_name(each.metadata["Name"])
        if name == "offsetlog":
            files |= _offsetlog_files()
        elif _is_linked(each):
            raise ConfigError(
                f"the package {name} is installed as a link to its sources (pip install --editable); install it "
                "without --editable"
            )
        # A package of the system may lack a list of its files.  Files outside of site-packages are scripts.
        listed = [str(path) for path in each.files or []]
        for path in listed:
            if _runs(Path(path)) and not path.startswith(("..", "/", "__editable__")):
                place = Path(str(each.locate_file(path)))
                if place.is_file():
                    files[path] = place
        if not listed and name != "offsetlog":
            raise ConfigError(f"the package {name} has no list of its files; install it with pip")
    return files


def _offsetlog_files() -> dict[str, Path]:
    # The files of offsetlog itself are those of the running package, since an editable install has no list of its
    # files.
    root = Path(offsetlog.__file__).parent
    files = {f"offsetlog/{path.relative_to(root)}": path for path in root.rglob("*") if path.is_file() and _runs(path)}
    # PySpark finds the data source by the name of a top-level package.
    finder = root / "spark" / "discovery"
    return files | {str(path.relative_to(finder)): path for path in finder.rglob("*.py")}


def _is_linked(package: metadata.Distribution) -> bool:
    url = json.loads(package.read_text("direct_url.json") or "{}")
    return bool(url.get("dir_info", {}).get("editable"))


def _runs(path: Path) -> bool:
    return path.suffix not in _NOT_RUN and "__pycache__" not in path.parts


def needed_glibc(paths: Iterable[Path]) -> tuple[int, int]:
    """Returns the oldest glibc that can load the shared objects among these files."""
    least = _GLIBC_LEAST
    for path in paths:
        if ".so" in path.suffixes:
            with path.open("rb") as file:
                rest = b""
                while data := file.read(1 << 20):
                    least = max([least, *((int(one), int(two)) for one, two in _GLIBC.findall(rest + data))])
                    rest = data[-16:]
    return least


# -------------------------------------------------------------------------------------------------------- the archive

_LAUNCHER = """\
#!/bin/sh
# Starts the first suitable Python of this machine with the packages beside this file.
# OFFSETLOG_PYTHON names a Python that is not on the path.
if [ -n "$OFFSETLOG_PACK_CHECKS" ]; then echo "it is the launcher itself"; exit 1; fi
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd -P) || exit 1
for python in ${{OFFSETLOG_PYTHON:+"$OFFSETLOG_PYTHON"}} python{python} /usr/bin/python{python} \\
    /usr/local/bin/python{python} python3 python
do
    command -v "$python" >/dev/null 2>&1 || continue
    if reason=$(OFFSETLOG_PACK_CHECKS=1 "$python" -I -S -B "$here/check_python.py" 2>&1)
    then
        PYTHONPATH="$here/../lib/python{python}/site-packages${{PYTHONPATH:+:$PYTHONPATH}}"
        export PYTHONPATH
        exec "$python" "$@"
    fi
    refused="$refused; $python: $reason"
done
echo "offsetlog: no Python on this machine can run the archive, which needs {needs}${{refused:-; none was found}}" >&2
exit 1
"""

_CHECK = """\
# Fails if this Python cannot load the extensions of the archive.
import os
import sys
import sysconfig

abi = sysconfig.get_config_var("SOABI")
if abi != {abi!r}:
    sys.exit("its ABI is " + str(abi))
try:
    libc = os.confstr("CS_GNU_LIBC_VERSION")
except (AttributeError, OSError, ValueError):
    libc = None
needed = {libc!r}
if needed and libc and tuple(int(part) for part in libc.split()[-1].split(".")[:2]) < needed:
    sys.exit("it has " + libc)
"""


def _own_files(python: str, abi: str, libc: tuple[int, int] | None, about: Mapping[str, object]) -> dict[str, bytes]:
    needs = f"Python {python} ({abi})" + (f" and glibc {libc[0]}.{libc[1]} or newer" if libc else "")
    return {
        "bin/python": _LAUNCHER.format(python=python, needs=needs).encode(),
        "bin/check_python.py": _CHECK.format(abi=abi, libc=libc).encode(),
        "offsetlog-pack.json": (json.dumps(about, indent=2) + "\n").encode(),
    }


def _write(target: Path, own: Mapping[str, bytes], files: Mapping[str, Path], folder: str, *, overwrite: bool) -> int:
    """Writes the archive under a temporary name and then renames it; returns its size."""
    number, partial = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent)
    try:
        with os.fdopen(number, "wb") as file:
            with (
                gzip.GzipFile("", "wb", _COMPRESSION, file, mtime=_TIME) as packed,
                tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
            ):
                for name, text in own.items():
                    archive.addfile(_entry(name, len(text), executable=name == "bin/python"), io.BytesIO(text))
                archive.addfile(_link("bin/python3", "python"))
                for name, path in files.items():
                    _add(archive, f"{folder}/{name}", path)
            file.flush()
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
        # mkstemp denies access to other users, but a cluster fetches the archive as other users.
        os.chmod(partial, 0o666 & ~_umask())
        if overwrite:
            os.replace(partial, target)
        else:
            os.link(partial, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)
    return size


def _umask() -> int:
    # os.umask can only read the mask by setting it, which would affect other threads.  The mask is therefore read from
    # /proc.
    with open("/proc/self/status") as status:
        return next((int(line.split()[1], 8) for line in status if line.startswith("Umask:")), 0o022)


def _add(archive: tarfile.TarFile, name: str, path: Path) -> None:
    with path.open("rb") as file:
        archive.addfile(_entry(name, os.fstat(file.fileno()).st_size, executable=False), file)


def _entry(name: str, size: int, *, executable: bool) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = size, _TIME, 0o755 if executable else 0o644
    return entry


def _link(name: str, target: str) -> tarfile.TarInfo:
    entry = _entry(name, 0, executable=True)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    return entry
