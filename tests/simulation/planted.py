"""Bugs that are planted into the product's code, each of which a few hundred seeds must find.

A bug is a change of text in the sources of the engine, which is compiled and linked into a copy of some extensions, or
a change of Python objects; or both, where the rule that it breaks is kept in more than one place.
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


REFUSES_FOLLOWERS = (
    "case OL_ROLE_FOLLOWER:\n"
    '            return ol_fail(error, OL_NOT_COORDINATOR, "this process does not lead the partition");'
)


@dataclass(frozen=True)
class Change:
    """A change of one text of the engine."""

    source: str
    before: str
    after: str


@dataclass(frozen=True)
class Bug:
    """What is planted: changes of the engine, linked into `extensions`, and a change of Python objects."""

    extensions: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    patch: Callable[[], None] | None = None


def _acknowledge_at_once() -> None:
    from functools import partial

    from offsetlog.manager.log_manager import LogManager

    starts = LogManager.start

    def start(self: LogManager) -> None:
        starts(self)
        vars(self)["commit_async"] = partial(self.commit_async, durability="process")

    LogManager.start = start  # type: ignore[method-assign]


def _never_diverge() -> None:
    from offsetlog.replication import leader

    leader.diverging_epoch = lambda request, log: None


def _append_what_comes_late() -> None:
    from dataclasses import replace

    from offsetlog.manager.log_manager import LogManager
    from offsetlog.replication.follower import Follower

    appends, responds = LogManager.append_as_follower, Follower.on_response

    def append(self: LogManager, partition: int, epoch: int, batches: bytes) -> int:
        return appends(self, partition, self.leader_epoch(partition), batches)

    def on_response(self: Follower, request: object, response: object) -> object:
        return responds(self, request, replace(response, leader_epoch=self.leader_epoch))  # type: ignore[arg-type,type-var]

    LogManager.append_as_follower = append  # type: ignore[method-assign,assignment]
    Follower.on_response = on_response  # type: ignore[method-assign,assignment]
    Follower._is_late = lambda *_: False  # type: ignore[method-assign]


def _expire_everywhere() -> None:
    from offsetlog.manager.log_manager import LogManager

    def active(self: LogManager) -> list[object]:
        return [each for each in self._open_core.core.attached(wait=False) if each.role in ("active", "follower")]

    LogManager._active = active  # type: ignore[method-assign,assignment]


BUGS = {
    "acknowledges before W": Bug(patch=_acknowledge_at_once),
    "no truncation at a new epoch": Bug(patch=_never_diverge),
    "a stale load wins": Bug(
        extensions=("partition", "snapshot"),
        changes=(
            Change(
                "partition/load.c",
                "load->limit = partition->options.replicated ? partition->watermark : INT64_MAX;",
                "load->limit = INT64_MAX;",
            ),
        ),
    ),
    "a fenced append is accepted": Bug(patch=_append_what_comes_late),
    "the overlay is not cleared": Bug(
        extensions=("replica",),
        changes=(
            Change(
                "partition/overlay.c",
                "    ol_in_flight_reset(&partition->inflight, partition->state.table);\n",
                "",
            ),
            Change("partition/overlay.c", "    ol_unapplied_free(&partition->unapplied);\n", ""),
        ),
    ),
    "a follower expires": Bug(
        extensions=("retention",),
        # A commit and a read of a follower's state, each of which refuses.
        changes=(
            Change("partition/partition.c", REFUSES_FOLLOWERS, "case OL_ROLE_FOLLOWER:\n            return OL_OK;"),
            Change("partition/partition.c", REFUSES_FOLLOWERS, "case OL_ROLE_FOLLOWER:\n            return OL_OK;"),
        ),
        patch=_expire_everywhere,
    ),
}


# ---------------------------------------------------------------------------------------------------- compiling


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


def build(bug: Bug, folder: Path) -> dict[str, Path]:
    """Links copies of the bug's extensions; returns them by name."""
    compiled = _compile(bug, folder)
    replaced = {source.replace("/", "-").replace(".c", ".o") for source in bug_sources(compiled)}
    engine = [path for path in next(BUILD.glob("engine-*")).glob("*.o") if path.name not in replaced]
    built: dict[str, Path] = {}
    for name in bug.extensions:
        own = next(BUILD.glob(f"extensions-*/offsetlog._native.{name}.o"))
        target = folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
        # The tests' file system is linked into their extension alone.
        objects = [path for path in engine if not path.name.startswith("testing-")]
        subprocess.run(["cc", "-shared", "-pthread", own, *compiled.values(), *objects, "-o", target], check=True)
        built[name] = target
    return built


def bug_sources(compiled: dict[str, Path]) -> list[str]:
    """Returns the sources that were compiled again."""
    return list(compiled)


def plant(name: str, folder: Path) -> None:
    """Plants a bug into this process, before anything of offsetlog is imported."""
    bug = BUGS[name]
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
