"""The credentials and TLS settings of a connection to ZooKeeper, under Kafka's names.

Keys and certificates must be in PEM files, which Kafka and ZooKeeper also accept.  Java keystores
are not supported.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from offsetlog.errors import ConfigError
from offsetlog.manager.properties import Setting, flag
from offsetlog.zookeeper.tls import TlsSettings

_PREFIX = "zookeeper.ssl."
ENABLE = f"{_PREFIX}client.enable"
HOSTNAME = f"{_PREFIX}endpoint.identification.algorithm"
#: Kafka has no property with this name: its brokers authenticate with a JAAS file.
DIGEST = "zookeeper.auth.digest"
#: The endings of the names of files that are not PEM.
_FILES_OF_JAVA = frozenset({".jks", ".p12", ".pfx", ".bcfks"})


def security(properties: Mapping[str, Setting]) -> dict[str, Any]:
    """Returns the fields of ConnectionSettings that the properties set, which are `auth` and `tls`.

    Raises:
        ConfigError: a value is not allowed or not supported.  The message names the property, but
            contains no password.
    """
    return {"auth": _auth(properties), "tls": _tls(properties)}


def _auth(properties: Mapping[str, Setting]) -> tuple[tuple[str, str], ...]:
    if DIGEST not in properties:
        return ()
    user, colon, password = str(properties[DIGEST]).partition(":")
    if not (user and colon and password):
        raise ConfigError(f"{DIGEST} must have the form user:password")
    return (("digest", f"{user}:{password}"),)


def _tls(properties: Mapping[str, Setting]) -> TlsSettings | None:
    if not flag(ENABLE, properties.get(ENABLE, False)):
        return None
    for name in (f"{_PREFIX}crl.enable", f"{_PREFIX}ocsp.enable"):
        if flag(name, properties.get(name, False)):
            raise ConfigError(f"{name} is not supported: revocation is not checked; remove the property")
    password = properties.get(f"{_PREFIX}keystore.password")
    return TlsSettings(
        truststore=_file(properties, f"{_PREFIX}truststore"),
        keystore=_file(properties, f"{_PREFIX}keystore"),
        keystore_password=None if password is None else str(password),
        checks_hostname=_checks_hostname(properties),
    )


def _file(properties: Mapping[str, Setting], store: str) -> str | None:
    """Returns the path of a PEM file, or None if no file is named."""
    location, kind = properties.get(f"{store}.location"), properties.get(f"{store}.type")
    if location is None:
        return None
    if not isinstance(location, str) or not location:
        raise ConfigError(f"{store}.location must be a file, not {location!r}")
    is_of_java = PurePath(location).suffix.lower() in _FILES_OF_JAVA if kind is None else str(kind).upper() != "PEM"
    if is_of_java:
        named = f"{store}.location" if kind is None else f"{store}.type"
        raise ConfigError(
            f"{named}: {location!r} must be a PEM file; convert a Java keystore with "
            f"`keytool -importkeystore -deststoretype PKCS12`, and the result with `openssl pkcs12`"
        )
    return location


def _checks_hostname(properties: Mapping[str, Setting]) -> bool:
    given = str(properties.get(HOSTNAME, "HTTPS")).strip().upper()
    if given not in ("HTTPS", ""):
        raise ConfigError(
            f"{HOSTNAME}={given!r} is not a known value; set it to HTTPS, or leave it empty to accept a certificate "
            "for any host"
        )
    return given == "HTTPS"
