"""The former module of the jobs' commands, for programs that still import it; they are now in `offsetlog.cli.spark`."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return import_module(f"offsetlog.cli.spark.{name}")
    except ModuleNotFoundError as missing:
        if missing.name != f"offsetlog.cli.spark.{name}":
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
