"""The class of every request and response and of every struct in them, as named tuples.

They are made from the tables in csrc/wire when the package is imported; what a type checker reads,
messages.pyi, is written from the same tables by `python tests/protocol/message_stub.py --write`.
"""

from offsetlog._native.messages import CLASSES

globals().update(CLASSES)
