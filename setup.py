"""Builds the extensions: csrc/ is compiled once into a static library; every offsetlog/_native/*.pyx is linked with it.

Everything that does not need a program is in pyproject.toml.  Environment variables:

* ``CC``, ``CFLAGS``: the compiler, and flags to add behind ours.
* ``OFFSETLOG_JOBS``: how many C files are compiled at a time (default 2).
* ``OFFSETLOG_SANITIZE``: a list for ``-fsanitize=`` (``address,undefined``); built aside, in ``build/sanitize``.
"""

from __future__ import annotations

import concurrent.futures
import fcntl
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup
from setuptools.command.build import build as _build
from setuptools.command.build_ext import build_ext as _build_ext

ROOT = Path(__file__).resolve().parent
os.chdir(ROOT)

SANITIZE = os.environ.get("OFFSETLOG_SANITIZE", "")
SANITIZE_FLAGS = [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer", "-O1", "-g"] if SANITIZE else []
BUILD = Path("build/sanitize" if SANITIZE else "build")
TAG = f"{platform.machine()}-{sys.implementation.cache_tag}"

# No -march: the baseline of the architecture, with what is faster chosen at run time (ol_crc32c).
ENGINE_FLAGS = shlex.split("-std=gnu11 -O3 -g1 -fPIC -pthread -fvisibility=hidden -D_GNU_SOURCE -UNDEBUG -Wall")
# CPython's own assertions stay off (its flags define NDEBUG): they would sit in every inlined macro of the hot path.
# Ours are OL_ASSERT, which does not depend on NDEBUG.
EXTENSION_FLAGS = shlex.split("-std=gnu11 -O3 -fvisibility=hidden -D_GNU_SOURCE")

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "binding": True,
    "embedsignature": False,
}


def is_stale(target: Path, sources: list[Path]) -> bool:
    """Tells whether `target` is missing or not newer than `sources`, in nanoseconds: two edits in a second count."""
    if not target.exists():
        return True
    built = target.stat().st_mtime_ns
    return any(not source.exists() or source.stat().st_mtime_ns >= built for source in sources)


def dependencies_of(record: Path) -> list[Path]:
    """Reads the files that the compiler read for one object from the rule it wrote beside it."""
    if not record.exists():
        return [record]
    text = record.read_text().replace("\\\n", " ")
    return [Path(name) for name in text.partition(":")[2].split()]


def compile_engine() -> Path:
    """Compiles what changed in csrc/ and returns the static library."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    command = [*compiler, *ENGINE_FLAGS, *SANITIZE_FLAGS, *shlex.split(os.environ.get("CFLAGS", ""))]
    if SANITIZE:
        command.append("-DOL_ENABLE_VERIFY")
    # Objects of other flags are other objects.
    folder = BUILD / f"engine-{platform.machine()}-{hashlib.sha256(repr(command).encode()).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    sources = sorted(Path("csrc").rglob("*.c"))
    # An archive names its members without folders, so the name of an object says the room, too.
    objects = {source: folder / ("-".join(source.with_suffix(".o").parts[1:])) for source in sources}
    stale = [
        source
        for source, target in objects.items()
        if is_stale(target, [source, *dependencies_of(target.with_suffix(".d"))])
    ]

    def compile_one(source: Path) -> None:
        target = objects[source]
        # The compiler would leave half an object behind when it is interrupted; the rename makes it whole or absent.
        partial = target.with_suffix(".partial")
        call = [*command, "-MMD", "-MF", str(target.with_suffix(".d")), "-c", str(source), "-o", str(partial)]
        started_ns = source.stat().st_mtime_ns
        if subprocess.run(call, check=False).returncode != 0:
            raise SystemExit(f"{source} does not compile")
        if source.stat().st_mtime_ns != started_ns:
            raise SystemExit(f"{source} was changed while it was compiled: build again")
        partial.replace(target)

    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("OFFSETLOG_JOBS", "2"))) as pool:
        for job in [pool.submit(compile_one, source) for source in stale]:
            job.result()
    library, listing = folder / "liboffsetlog_c.a", folder / "objects.txt"
    names = "\n".join(str(path) for path in objects.values())
    if is_stale(library, list(objects.values())) or not listing.exists() or listing.read_text() != names:
        library.unlink(missing_ok=True)
        subprocess.run(["ar", "rcs", str(library), *map(str, objects.values())], check=True)
        listing.write_text(names)
    return library


class build(_build):  # noqa: N801  (setuptools names its commands so)
    """`setup.py build`, aside for sanitized builds, so that they are never mixed with the others."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.build_base = str(BUILD)


class build_ext(_build_ext):  # noqa: N801
    """Links each extension with the engine, and builds it again whenever anything below it is newer."""

    def finalize_options(self) -> None:
        super().finalize_options()
        if self.inplace and SANITIZE:
            raise SystemExit("a sanitized build is never made in place: run `make test-sanitized`")
        if self.inplace:
            # `pip install -e` and `build_ext --inplace` share one place, so that the second finds the first one's work.
            self.build_lib = str(BUILD / f"inplace-{TAG}")
        self.build_temp = str(BUILD / f"temp-{TAG}")

    def run(self) -> None:
        self.library = compile_engine()
        super().run()

    def build_extension(self, extension: Extension) -> None:
        target = Path(self.get_ext_fullpath(extension.name))
        extension.extra_objects = [str(self.library)]
        sources = [Path(source) for source in extension.sources]
        below = [*sources, self.library, Path("setup.py"), *Path("csrc").rglob("*.h")]
        self.force = is_stale(target, below)
        super().build_extension(extension)

    def copy_extensions_to_source(self) -> None:
        """Puts fresh extensions into the source tree by rename: a running process keeps the file it has mapped."""
        build_py = self.get_finalized_command("build_py")
        for extension in self.extensions:
            in_place, built = self._get_inplace_equivalent(build_py, extension)
            if not is_stale(Path(in_place), [Path(built)]):
                continue
            shutil.copyfile(built, in_place + ".partial")
            os.replace(in_place + ".partial", in_place)


def packages() -> dict[str, object]:
    """The packages, and where PySpark's name for the data source lies: it looks for a top-level `pyspark_offsetlog`."""
    found = find_packages(include=["offsetlog*"])
    return {
        "packages": [*found, "pyspark_offsetlog"],
        "package_dir": {"pyspark_offsetlog": "offsetlog/spark/discovery/pyspark_offsetlog"},
    }


def extensions() -> list[Extension]:
    """One extension for every .pyx of offsetlog/_native, translated to C where that is out of date."""
    found = [
        Extension(
            ".".join(source.with_suffix("").parts),
            [str(source)],
            include_dirs=["csrc"],
            extra_compile_args=[*EXTENSION_FLAGS, *SANITIZE_FLAGS],
            extra_link_args=["-pthread", *SANITIZE_FLAGS[:1]],
        )
        for source in sorted(Path("offsetlog/_native").glob("*.pyx"))
    ]
    return cythonize(found, build_dir=str(BUILD / "cython"), compiler_directives=DIRECTIVES, quiet=True)


BUILD.mkdir(parents=True, exist_ok=True)
with open(BUILD / ".lock", "w") as lock:
    # Two builds of one tree (two terminals) take turns.
    fcntl.flock(lock, fcntl.LOCK_EX)
    setup(ext_modules=extensions(), cmdclass={"build": build, "build_ext": build_ext}, **packages())
