"""Kafka's protocol: decodes and encodes messages in all versions that the server supports.

The tables of fields are in csrc/wire, where the codec in C uses them.  Each message is a named tuple.  Its class is
made from its table (`offsetlog.protocol.messages`), and has the fields of all versions.  Code that handles a message
therefore need not check the version (docs/format/wire.md §11.3).
"""

from __future__ import annotations

from offsetlog._native.messages import (
    APIS,
    Api,
    Field,
    Request,
    decode,
    decode_request,
    decode_response,
    encode,
    encode_request,
    encode_response,
    fields_of,
)

__all__ = [
    "APIS",
    "Api",
    "Field",
    "Request",
    "decode",
    "decode_request",
    "decode_response",
    "encode",
    "encode_request",
    "encode_response",
    "fields_of",
]
