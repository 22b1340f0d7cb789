"""Plants a bug into the product's code.

A bug is a change of text in the sources of the engine, which is compiled and linked into a copy of
some extensions, or a change of Python objects; or both, where the rule that it breaks is kept in
more than one place.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"


@dataclass(frozen=True)
class Change:
    """A change of one text of the engine."""

    source: str
    before: str
    after: str


@dataclass(frozen=True)
class Bug:
    """A planted bug: changes of the engine, linked into `extensions`, and a change of Python objects."""

    extensions: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    patch: Callable[[], None] | None = None


def _changed_sources(bug: Bug) -> dict[str, str]:
    texts: dict[str, str] = {}
    for change in bug.changes:
        text = texts.get(change.source) or (ROOT / "csrc" / change.source).read_text()
        if change.before not in text:
            raise ValueError(f"{change.source} has no such text any more:\n{change.before}")
        texts[change.source] = text.replace(change.before, change.after, 1)
    return texts


def _compile(bug: Bug, folder: Path) -> dict[str, Path]:
    compiled: dict[str, Path] = {}
    for source, text in _changed_sources(bug).items():
        changed = folder / source.replace("/", "-")
        changed.write_text(text)
        target = changed.with_suffix(".o")
        subprocess.run(
            ["cc", "-std=gnu11", "-O2", "-fPIC", "-pthread", "-fvisibility=hidden", "-D_GNU_SOURCE", "-UNDEBUG",
             f"-I{ROOT / 'csrc'}", "-c", changed, "-o", target],
            check=True,
        )
        compiled[source] = target
    return compiled


def _newest(pattern: str) -> Path:
    # Earlier builds leave their folders.
    return max(BUILD.glob(pattern), key=lambda path: path.stat().st_mtime_ns)


def build(bug: Bug, folder: Path) -> dict[str, Path]:
    """Links copies of the bug's extensions; returns them by name."""
    compiled = _compile(bug, folder)
    replaced = {source.replace("/", "-").replace(".c", ".o") for source in bug_sources(compiled)}
    engine = [path for path in _newest("engine-*").glob("*.o") if path.name not in replaced]
    built: dict[str, Path] = {}
    for name in bug.extensions:
        own = _newest(f"extensions-*/offsetlog._native.{name}.o")
        target = folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
        # The tests' file system is linked into their extension alone.
        objects = [path for path in engine if not path.name.startswith("testing-")]
        subprocess.run(["cc", "-shared", "-pthread", own, *compiled.values(), *objects, "-o", target], check=True)
        built[name] = target
    return built


def bug_sources(compiled: dict[str, Path]) -> list[str]:
    """Returns the sources that were compiled again."""
    return list(compiled)


def plant(bug: Bug, folder: Path) -> None:
    """Plants a bug into this process, before anything of offsetlog is imported."""
    if bug.extensions:
        for extension, path in build(bug, folder).items():
            full = f"offsetlog._native.{extension}"
            loader = importlib.machinery.ExtensionFileLoader(full, str(path))
            spec = importlib.util.spec_from_file_location(full, path, loader=loader)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[full] = module
            spec.loader.exec_module(module)
    if bug.patch is not None:
        bug.patch()
