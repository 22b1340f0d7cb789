"""Builds the extensions, and the engine in csrc/ once: a shared library beside them that all of them are linked with.

Everything that does not need a program is in pyproject.toml.  Environment variables:

* ``CC``, ``CFLAGS``: the compiler, and flags to add after ours.
* ``NM``: the program that lists the symbols of objects (default nm).
* ``OFFSETLOG_JOBS``: how many files are translated or compiled at a time (default 2).
* ``OFFSETLOG_SANITIZE``: a list for ``-fsanitize=`` (``address,undefined``); built aside, in ``build/sanitize``.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import fcntl
import functools
import hashlib
import itertools
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path

import Cython
from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup
from setuptools.command.build import build as _build
from setuptools.command.build_ext import build_ext as _build_ext

ROOT = Path(__file__).resolve().parent
os.chdir(ROOT)

SANITIZE = os.environ.get("OFFSETLOG_SANITIZE", "")
SANITIZE_FLAGS = [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer", "-O1", "-g"] if SANITIZE else []
BUILD = Path("build/sanitize" if SANITIZE else "build")
JOBS = int(os.environ.get("OFFSETLOG_JOBS", "2"))
#: The engine's library, in the folder of the extensions.  It holds extensions too, so it is made for one Python.  No
#: name of an extension ends so: importers and pkgutil pass it over.
LIBRARY = f"liboffsetlog.so.{sysconfig.get_config_var('SOABI')}"
TAG = f"{platform.machine()}-{sys.implementation.cache_tag}"

# No -march: the baseline of the architecture, with what is faster chosen at run time (ol_crc32c).
# The linker hides what no extension calls (`exported_names`); calls within the library need no indirection.
ENGINE_FLAGS = shlex.split(
    "-std=gnu11 -O3 -g1 -fPIC -pthread -fno-semantic-interposition -D_GNU_SOURCE -UNDEBUG -Wall"
)
# CPython's own assertions stay off (its flags define NDEBUG): they would sit in every inlined macro of the hot path.
# Ours are OL_ASSERT, which does not depend on NDEBUG.
# -g1 after CPython's own -g: the full description of generated C is half of its compile time.  Newer compilers refuse
# incompatible pointers: all do.  -fno-plt: one jump instead of two into the engine.
EXTENSION_FLAGS = shlex.split(
    "-std=gnu11 -g1 -fPIC -fvisibility=hidden -fno-plt -D_GNU_SOURCE -Werror=incompatible-pointer-types"
)
#: Extensions that every single commit and fetch goes through.  They get -O3.  The others get -O2: most hot code is in
#: csrc/, and generated C compiles an eighth longer with -O3.
HOT = ["offsetlog._native.store_core", "offsetlog._native.front", "offsetlog._native.frame_stream"]
USER_FLAGS = shlex.split(os.environ.get("CFLAGS", ""))
#: The engine and the code of those are compiled again when the library is linked: calls from one file into another are
#: inlined, which saves a sixth of a commit's time.
LINK_TIME_FLAGS = ["-flto=auto", "-ffat-lto-objects"]

#: Extensions that only tests import: built in place and for sanitized runs, never into a wheel.
TEST_EXTENSIONS = {"faults.fault_fs": "tests/faults/fault_fs.pyx"}

#: The module in which Cython keeps what it would repeat in every other extension: a third of their code.
SHARED = "offsetlog._native.cython_shared"
DIRECTIVES = {
    # No object of an extension is pickled; those that can be define __reduce__.
    "auto_pickle": False,
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


@dataclasses.dataclass(frozen=True)
class Compilation:
    """One C file and the object that comes of it; `command` lacks the names of both."""

    source: Path
    target: Path
    command: list[str]

    def is_stale(self) -> bool:
        return is_stale(self.target, [self.source, *dependencies_of(self.target.with_suffix(".d"))])

    def run(self) -> None:
        # An interrupted compiler would leave half an object; the rename makes it whole or absent.
        partial = self.target.with_suffix(".partial")
        record = str(self.target.with_suffix(".d"))
        started_ns = self.source.stat().st_mtime_ns
        call = [*self.command, "-MMD", "-MF", record, "-c", str(self.source), "-o", str(partial)]
        if subprocess.run(call, check=False).returncode != 0:
            raise SystemExit(f"{self.source} does not compile")
        if self.source.stat().st_mtime_ns != started_ns:
            raise SystemExit(f"{self.source} was changed while it was compiled: build again")
        partial.replace(self.target)


@functools.cache
def link_time_flags() -> tuple[str, ...]:
    """LINK_TIME_FLAGS where the compiler has them; none for sanitized builds, which are not measured."""
    if SANITIZE:
        return ()
    # A compiler may have them, and no linker that does.
    probe = BUILD / "probe.so"
    flags = [*LINK_TIME_FLAGS, "-Werror", "-fPIC", "-shared"]
    call = [*compiler_of_engine(), *flags, "-x", "c", os.devnull, "-o", str(probe)]
    known = subprocess.run(call, stderr=subprocess.DEVNULL, check=False).returncode == 0
    probe.unlink(missing_ok=True)
    return tuple(LINK_TIME_FLAGS) if known else ()


def compiler_of_engine() -> list[str]:
    """The C compiler: $CC, or the one that built Python."""
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


def side_by_side(jobs: Iterable[Callable[[], object]]) -> None:
    """Runs `jobs`, JOBS at a time; the first failure is raised once those that run have ended."""
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        running = [pool.submit(job) for job in jobs]
        for job in running:
            job.result()


def folder_of(name: str, settings: object) -> Path:
    """The folder of the files that a program makes with these settings: files of other settings are other files."""
    digest = hashlib.sha256(repr(settings).encode()).hexdigest()[:12]
    folder = BUILD / f"{name}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def engine() -> list[Compilation]:
    """The compilations of csrc/."""
    command = [*compiler_of_engine(), *ENGINE_FLAGS, *link_time_flags(), *SANITIZE_FLAGS, *USER_FLAGS, "-Icsrc"]
    if SANITIZE:
        command.append("-DOL_ENABLE_VERIFY")
    folder = folder_of(f"engine-{platform.machine()}", command)
    # The name of an object says the room, too.
    return [
        Compilation(source, folder / "-".join(source.with_suffix(".o").parts[1:]), command)
        for source in sorted(Path("csrc").rglob("*.c"))
    ]


def symbols_of(paths: list[Path], *options: str) -> set[str]:
    """Lists the symbols of objects and libraries by $NM: the last word of each line, without its version."""
    call = [*shlex.split(os.environ.get("NM", "nm")), *options, *map(str, paths)]
    try:
        listed = subprocess.run(call, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"{call[0]} lists no symbols ({error}): install binutils, or set NM") from error
    return {line.split()[-1].partition("@")[0] for line in listed.splitlines() if line and not line.endswith(":")}


def exported_names(objects: list[Path]) -> list[str]:
    """The names that the library shows: what `objects` ask of the engine, and the extensions it holds."""
    asked = {name for name in symbols_of(objects, "-u") if name.startswith("ol_")}
    return sorted({*asked, *(f"PyInit_{name.rpartition('.')[2]}" for name in HOT)})


def check_exports(library: Path, names: list[str]) -> None:
    """Stops the build where `library` lacks one of `names`: the extensions would fail only when they are imported."""
    missing = sorted(set(names) - symbols_of([library], "-D", "--defined-only"))
    if missing:
        library.unlink()
        raise SystemExit(
            f"{library.name} does not show {len(missing)} of {len(names)} names that extensions ask for, "
            f"the first of them {missing[0]}: set CC and NM to programs of one toolchain, and build again"
        )


def write_changed(target: Path, text: str) -> Path:
    """Writes a file that is made, only where it changes: what depends on it is as fresh as before."""
    if not target.exists() or target.read_text() != text:
        target.write_text(text)
    return target


def build_mark(version: str) -> str:
    """The name of a symbol that the library of this build has, and that each of its extensions asks for.

    The loader takes a library that is loaded for any other of its name.  A process whose package is replaced would
    run new extensions over the old engine, whose structs may differ; instead, the import fails and shows this name.
    It covers what extensions and the library must agree on.  A changed .c file alone leaves it: such a build links
    the library and no extension.
    """
    settings = [version, ENGINE_FLAGS, EXTENSION_FLAGS, SANITIZE_FLAGS, USER_FLAGS, DIRECTIVES, Cython.__version__]
    digest = hashlib.sha256(repr(settings).encode())
    for path in sorted([*Path("csrc").rglob("*.h"), *Path("offsetlog/_native").glob("*.pxd")]):
        content = path.read_bytes()
        digest.update(f"{path} {len(content)} ".encode() + content)
    return f"ol_package_was_replaced_restart_this_process_{digest.hexdigest()[:12]}"


def mark_sources(mark: str, folder: Path) -> tuple[Path, Path]:
    """Writes the two sources of the mark: of the library, which has it, and of an extension, which asks for it."""
    declared = f'extern __attribute__((visibility("default"))) const char {mark};\n'
    has = f"{declared}const char {mark} = 0;\n"
    asks = f"{declared}__attribute__((used)) static const char *const asked = &{mark};\n"
    return write_changed(folder / "has_mark.c", has), write_changed(folder / "asks_for_mark.c", asks)


class build(_build):  # noqa: N801  (setuptools names its commands so)
    """`setup.py build`, aside for sanitized builds, so that they are never mixed with the others."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.build_base = str(BUILD)


class build_ext(_build_ext):  # noqa: N801
    """Compiles the engine and the extensions side by side, then links the library and each extension with it.

    An object is compiled again where its source or a header that it includes is newer; what is linked is linked again
    where one of its objects is.  A change in csrc/ links the library alone.
    """

    def finalize_options(self) -> None:
        super().finalize_options()
        if self.inplace and SANITIZE:
            raise SystemExit("a sanitized build is never made in place: run `make test-sanitized`")
        if self.inplace:
            # `pip install -e` and `build_ext --inplace` share one place, so that the second finds the first one's work.
            self.build_lib = str(BUILD / f"inplace-{TAG}")
        #: Profilers and debuggers read the symbols of what is built in place; what is installed has none.
        self.for_tests = bool(self.inplace or SANITIZE)
        if not self.for_tests:
            self.extensions = [one for one in self.extensions if one.name not in TEST_EXTENSIONS]

    @property
    def library(self) -> Path:
        return Path(self.build_lib, *SHARED.split(".")[:-1], LIBRARY)

    def get_outputs(self) -> list[str]:
        return [*super().get_outputs(), str(self.library)]

    def build_extensions(self) -> None:
        compilations = engine()
        # The level goes first: sanitizers and the user may set another.
        flags = [*EXTENSION_FLAGS, *SANITIZE_FLAGS, *USER_FLAGS]
        flags += [f"-I{folder}" for folder in [*self.include_dirs, "csrc"]]
        cool = [*self.compiler.compiler_so, "-O2", *flags]
        hot = [*self.compiler.compiler_so, "-O3", *flags, *link_time_flags()]
        folder = folder_of(f"extensions-{platform.machine()}", [*cool, *hot, *HOT])
        own = {
            name: Compilation(Path(sources[0]), folder / f"{name}.o", hot if name in HOT else cool)
            for name, sources in ((extension.name, extension.sources) for extension in self.extensions)
        }
        has_mark, asks_for_mark = (
            Compilation(source, source.with_suffix(".o"), cool)
            for source in mark_sources(build_mark(self.distribution.get_version()), folder)
        )
        # Only tests include csrc/testing.
        testing = [one for one in compilations if self.for_tests and one.source.parts[1] == "testing"]
        shipped = [one for one in compilations if one.source.parts[1] != "testing"]
        # The largest first, so that no core waits for the other at the end.
        every = [*own.values(), *shipped, *testing, has_mark, asks_for_mark]
        stale = [compilation for compilation in every if compilation.is_stale()]
        stale.sort(key=lambda compilation: -compilation.source.stat().st_size)
        side_by_side(compilation.run for compilation in stale)
        outside = [one.target for name, one in own.items() if name not in {*HOT, *TEST_EXTENSIONS}]
        inside = [one.target for one in [*shipped, has_mark, *(own[name] for name in HOT)]]
        self.link_library(inside, [*outside, asks_for_mark.target], folder)
        side_by_side(
            functools.partial(
                self.link_extension,
                extension.name,
                own[extension.name].target,
                asks_for_mark.target,
                [one.target for one in [*testing, *shipped]] if extension.name in TEST_EXTENSIONS else [],
            )
            for extension in self.extensions
        )

    def link_library(self, inside: list[Path], outside: list[Path], folder: Path) -> None:
        """Links the engine and the code of HOT, and shows what the objects `outside` ask for."""
        names = exported_names(outside)
        text = "{ global: " + " ".join(f"{name};" for name in names) + " local: *; };\n"
        script = write_changed(folder / "exports.map", text)
        level = ["-O3", LINK_TIME_FLAGS[0]] if link_time_flags() else []
        options = ["-fno-semantic-interposition", f"-Wl,--version-script={script}", f"-Wl,-soname,{LIBRARY}"]
        self.link(self.library, [*level, *options, *map(str, inside)], [*inside, script])
        check_exports(self.library, names)

    def link_extension(self, name: str, compiled: Path, mark: Path, engine_objects: list[Path]) -> None:
        """Links one extension with the library, or a test's one with objects of the engine of its own.

        Those in HOT hold nothing but the mark: dlsym finds PyInit_* in the library, which they name.
        """
        target = Path(self.get_ext_fullpath(name))
        # Without -fno-lto the linker would do it for every extension, since the engine's objects allow it.
        options = ["-fno-lto"] if link_time_flags() else []
        if engine_objects:
            inputs = [compiled, *engine_objects]
            self.link(target, [*options, "-Wl,-Bsymbolic", *map(str, inputs)], inputs)
            return
        inputs = [mark] if name in HOT else [compiled, mark]
        options += [f"-L{self.library.parent}", "-Wl,--no-as-needed", f"-l:{LIBRARY}"]
        self.link(target, [*map(str, inputs), *options], inputs, "-Wl,-rpath,$ORIGIN")

    def link(self, target: Path, arguments: list[str], inputs: list[Path], *first: str) -> None:
        """Calls the linker where one of `inputs` is newer than `target`, or where it was made by another call.

        The options `first` stand before those with which Python was built, such as a search path of libraries.
        """
        kept = [] if self.for_tests else ["-Wl,--strip-all"]
        linker = list(self.compiler.linker_so)
        program = list(itertools.takewhile(lambda word: not word.startswith("-"), linker))
        call = [*program, *first, *linker[len(program) :], *arguments, *kept]
        # Pages of their own for headers and constants would add 12 KB to each of the files.
        call += ["-Wl,-z,noseparate-code", "-Wl,-z,now", "-pthread"]
        call += SANITIZE_FLAGS[:1]
        # Objects of other flags lie elsewhere and may be older than what was linked from these.
        record = BUILD / "links" / f"{hashlib.sha256(str(target).encode()).hexdigest()[:12]}.txt"
        linked = record.read_text() if record.exists() else ""
        if linked == repr(call) and not is_stale(target, [*inputs, Path("setup.py")]):
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        record.parent.mkdir(parents=True, exist_ok=True)
        record.unlink(missing_ok=True)
        subprocess.run([*call, "-o", f"{target}.partial"], check=True)
        os.replace(f"{target}.partial", target)
        record.write_text(repr(call))

    def copy_extensions_to_source(self) -> None:
        """Puts fresh extensions into the source tree by rename: a running process keeps the file it has mapped."""
        build_py = self.get_finalized_command("build_py")
        pairs = [self._get_inplace_equivalent(build_py, extension) for extension in self.extensions]
        beside = str(Path(*SHARED.split(".")[:-1], LIBRARY))
        for in_place, built in [(beside, str(self.library)), *pairs]:
            if not is_stale(Path(in_place), [Path(built)]):
                continue
            shutil.copyfile(built, in_place + ".partial")
            os.replace(in_place + ".partial", in_place)


def packages() -> dict[str, object]:
    """The packages, where PySpark's name for the data source lies (`pyspark_offsetlog`), and the man page."""
    found = find_packages(include=["offsetlog*"])
    return {
        "packages": [*found, "pyspark_offsetlog"],
        "package_dir": {
            "pyspark_offsetlog": "offsetlog/spark/discovery/pyspark_offsetlog",
            "faults": "tests/faults",
        },
        "data_files": [("share/man/man1", ["docs/offsetlog.1"])],
    }


def extensions() -> list[Extension]:
    """One extension for every .pyx, translated to C where that is out of date."""
    package = sorted(Path("offsetlog/_native").glob("*.pyx"))
    found = [Extension(".".join(source.with_suffix("").parts), [str(source)]) for source in package]
    # A source distribution can be without the tests.
    found += [Extension(name, [source]) for name, source in TEST_EXTENSIONS.items() if Path(source).exists()]
    # Cython writes the source of this one.
    found.append(Extension(SHARED, [SHARED.replace(".", "/") + ".c"]))
    settings = {"compiler_directives": DIRECTIVES, "shared_utility_qualified_name": SHARED}
    # Cython looks at times only, and not at the settings with which it made a file.
    folder = folder_of("cython", [Cython.__version__, settings])
    return cythonize(found, nthreads=JOBS, build_dir=str(folder), quiet=True, **settings)


def main() -> None:
    """Builds, one build of a tree at a time: two terminals take turns."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        setup(ext_modules=extensions(), cmdclass={"build": build, "build_ext": build_ext}, **packages())


# The processes that translate side by side may import this file again.
if __name__ == "__main__":
    main()
