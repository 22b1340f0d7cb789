"""The classes of messages as a type checker reads them.

python tests/protocol/message_stub.py             prints them
python tests/protocol/message_stub.py --write     writes offsetlog/protocol/messages.pyi
"""

from __future__ import annotations

import sys
from pathlib import Path

from offsetlog._native.messages import CLASSES
from offsetlog.protocol import Field, fields_of

PAGE = Path(__file__).parent.parent.parent / "offsetlog" / "protocol" / "messages.pyi"

HEAD = '''\
# Made by: python tests/protocol/message_stub.py --write

from collections.abc import Sequence
from typing import NamedTuple
'''

TYPES = {"bool": "bool", "uuid": "bytes", "string": "str", "bytes": "bytes"}


def type_of(field: Field) -> str:
    """The type of a field's values."""
    if field.kind == "array":
        element = field.of_class.__name__ if field.of_class else TYPES.get(field.element or "", "int")
        name = f"Sequence[{element}]"
    elif field.kind == "struct":
        assert field.of_class
        name = field.of_class.__name__
    else:
        name = TYPES.get(field.kind, "int")
    return name if field.nullable_from is None else f"{name} | None"


def text() -> str:
    """The whole stub: structs stand before the class that holds them."""
    classes = [
        f"\nclass {name}(NamedTuple):\n" + "".join(f"    {one.name}: {type_of(one)} = ...\n" for one in fields_of(name))
        for name in CLASSES
    ]
    return HEAD + "".join(classes)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(text())
    else:
        print(text(), end="")
