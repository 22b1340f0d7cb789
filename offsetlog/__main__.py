"""The entry point of the command `offsetlog`, and of `python -m offsetlog`."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.util import find_spec

#: click comes with typer.
NEEDED = {"typer", "rich", "click"}


def main() -> int:
    """Runs the command line on the arguments of the process; returns its exit code."""
    # A free-threaded CPython turns the GIL on for the engine's extensions.  That matters to programs, not to a command.
    warnings.filterwarnings("ignore", "The global interpreter lock", RuntimeWarning)
    try:
        import_module("offsetlog._native")
    except ImportError as refused:
        # The interpreter keeps the GIL off.
        return _refuse(str(refused))
    # A missing library is reported in one line.  rich is looked up here, because it is imported only when needed.
    try:
        if find_spec("rich") is None:
            raise ModuleNotFoundError(name="rich")
        from offsetlog.cli.app import run
    except ModuleNotFoundError as missing:
        name = (missing.name or "").partition(".")[0]
        if name in NEEDED:
            from offsetlog.missing_library import missing_library

            return _refuse(str(missing_library("the command line", "typer", "rich")))
        if name == "offsetlog":
            return _refuse(f"{missing.name} is not built: run `make build` in the source tree, or install the package")
        raise
    from offsetlog.errors import CorruptionWarning

    # The commands report damage themselves.
    warnings.simplefilter("ignore", CorruptionWarning)
    return run(sys.argv[1:])


def _refuse(message: str) -> int:
    print(f"offsetlog: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
