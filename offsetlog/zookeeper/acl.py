"""The access control list (ACL) that ZooKeeper keeps for each node."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from offsetlog.errors import InvalidArgumentError

#: The bit of each permission: read, write, create a child, delete a child, administer.
_BITS = {"r": 1, "w": 2, "c": 4, "d": 8, "a": 16}

_NUMBER = struct.Struct("!i")
#: The bytes of a SHA-1 digest in base64, with the bytes of an entry's lengths and permissions.
_DIGEST_BYTES = 64


class Acl(NamedTuple):
    """One entry of an ACL.

    Attributes:
        scheme: how a client is identified: "digest", "sasl", "x509" or "ip".  "world" stands for all clients, and
            "auth" for the client that creates the node, with all its identities.
        identity: the client, in the form that the scheme requires; "" for "auth".
        permissions: the sum of the permission bits.
    """

    scheme: str
    identity: str
    permissions: int


#: Every client may do everything, as in the nodes of Kafka's consumers.
OPEN = (Acl("world", "anyone", sum(_BITS.values())),)


def parse_acl(text: str) -> Acl:
    """Reads SCHEME:IDENTITY:PERMISSIONS, as ZooKeeper's own client does: "digest:kafka:qhX...=:cdrwa".

    Raises:
        InvalidArgumentError: the text is not an entry of this form.
    """
    scheme, _, rest = text.partition(":")
    identity, found, letters = rest.rpartition(":")
    is_known = letters and len(set(letters)) == len(letters) and set(letters) <= set(_BITS)
    if not scheme or not found or not is_known:
        raise InvalidArgumentError(
            f"{text!r} is not an ACL entry such as world:anyone:r, digest:USER:HASH:cdrwa or auth::cdrwa; give "
            "SCHEME:IDENTITY:PERMISSIONS, where the permissions are different letters of cdrwa"
        )
    if not identity and scheme != "auth":
        raise InvalidArgumentError(
            f"{text!r} has no identity: give SCHEME:IDENTITY:PERMISSIONS; only the scheme auth needs no identity, "
            "because it stands for your own credentials"
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"the ACL entry {text!r} is not UTF-8") from None
    return Acl(scheme, identity, sum(_BITS[letter] for letter in letters))


def encoded(acl: Sequence[Acl]) -> bytes:
    """Returns the entries in the form of a request."""
    return _NUMBER.pack(len(acl)) + b"".join(
        _NUMBER.pack(each.permissions) + _text(each.scheme) + _text(each.identity) for each in acl
    )


def stored_bytes_max(acl: Sequence[Acl], auth: Iterable[tuple[str, str]]) -> int:
    """Returns the most bytes that the entries take after a server replaces "auth" with the client's identities.

    Args:
        acl: the entries.
        auth: pairs of scheme and credential of the connection.
    """
    identities = sum(_DIGEST_BYTES + len(scheme.encode()) + len(credential.encode()) for scheme, credential in auth)
    return len(encoded(acl)) + identities * sum(each.scheme == "auth" for each in acl)


def _text(text: str) -> bytes:
    data = text.encode()
    return _NUMBER.pack(len(data)) + data
