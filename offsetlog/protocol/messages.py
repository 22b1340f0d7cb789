"""The classes of all requests and responses, and of the structs in them, as named tuples.

The classes are made from the tables in csrc/wire when the package is imported.  Type checkers read
messages.pyi, which `python tests/protocol/message_stub.py --write` generates from the same tables.
"""

from offsetlog._native.messages import CLASSES

globals().update(CLASSES)
