"""An extension of Griffe: compiled classes have their docstrings in the .pyx, which only the built extension shows.

The stubs beside them give the signatures. Needs the package as it is built in place.
"""

from __future__ import annotations

import inspect
from functools import reduce
from importlib import import_module
from typing import Any

import griffe


class CompiledDocstrings(griffe.Extension):
    """Gives each object of a stub the docstring of the compiled object."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Reads the docstring of one object, which is imported for that."""
        if obj.is_module or obj.docstring is not None or not str(obj.filepath).endswith(".pyi"):
            return
        names = obj.path.removeprefix(f"{obj.module.path}.").split(".")
        compiled: Any = reduce(lambda owner, name: getattr(owner, name, None), names, import_module(obj.module.path))
        text = inspect.getdoc(compiled) if compiled is not None else None
        if text:
            obj.docstring = griffe.Docstring(text, parent=obj, parser=griffe.Parser.google)
