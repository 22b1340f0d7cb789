"""Kafka's protocol: decodes and encodes messages, in every version that the server serves.

The tables of fields are in csrc/wire, for the codec in C.  Each message is a named tuple; its class
is made from its table (`offsetlog.protocol.messages`).  A class has the fields of all versions, so
code that handles a message need not check the version (docs/format/wire.md §11.3).
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
