"""Parses the places of a migration typed by a user, and opens them for a command."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from offsetlog.cli.stores import check_log, open_readable, open_writable
from offsetlog.errors import InvalidArgumentError, ZooKeeperUnavailableError

if TYPE_CHECKING:
    from offsetlog.migration.directory_place import DirectoryPlace, NewDirectory
    from offsetlog.migration.zookeeper_place import ZooKeeperPlace
    from offsetlog.zookeeper.acl import Acl

    ReadableTarget: TypeAlias = ZooKeeperPlace | DirectoryPlace | NewDirectory

# kazoo and pyarrow are imported only when a place is opened: help and usage errors must not wait for them.

SCHEME = "zookeeper://"

# An address without its scheme, or with half of it.
_ADDRESS = re.compile(r"(?i:zookeeper:)|[\w.-]+:\d+(?:[,/]|\Z)")

Credentials: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Ensemble:
    """A ZooKeeper ensemble as a place: the hosts and the root, as in `zookeeper.connect`."""

    hosts: str

    def __str__(self) -> str:
        return SCHEME + self.hosts


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """The options of the command line that are about places.

    Attributes:
        partitions: the number of log partitions of a new target directory, or of a target directory that Kafka wrote.
        permissive: whether to accept a directory with missing data.
        in_flight: the limit for outstanding requests of each kind to ZooKeeper.
        request_bytes_max: the limit for one write to ZooKeeper, in bytes; None for ZooKeeper's default.
        split: whether a group too large for one write is written in several.
        source_auth: the file with the credentials for the source ensemble.
        target_auth: the file with the credentials for the target ensemble.
        acl: the permissions of new nodes, as the user typed them; if empty, everyone may do everything.
        source_credentials: pairs of scheme and credential that `checked_access` has read from `source_auth`.
        target_credentials: the same pairs from `target_auth`.
        lock_timeout: how long to wait for a directory that another process has open for writing, in seconds.
    """

    partitions: int | None = None
    permissive: bool = False
    in_flight: int = 64
    request_bytes_max: int | None = None
    split: bool = False
    source_auth: Path | None = None
    target_auth: Path | None = None
    acl: tuple[str, ...] = ()
    source_credentials: Credentials = field(default=(), repr=False)
    target_credentials: Credentials = field(default=(), repr=False)
    lock_timeout: float = 0.0


def parse_place(text: str) -> Ensemble | Path:
    """Reads zookeeper://HOST:PORT,.../ROOT, or the path of a directory.

    Raises:
        InvalidArgumentError: the text has another scheme, or it looks like an address without a scheme and is not an
            existing path.
    """
    if text.startswith(SCHEME):
        return Ensemble(text.removeprefix(SCHEME).rstrip("/"))
    path = Path(text)
    # A mistyped address must not create a directory of that name and report success.
    if "://" in text or (_ADDRESS.match(text) and not path.exists()):
        raise InvalidArgumentError(
            f"{text!r} is not a place that holds offsets; give the path of a log directory, or "
            f"{SCHEME}HOST:PORT,.../ROOT"
            + ("" if "://" in text else f"; for a directory named {text!r}, give './{text}'")
        )
    return path


def are_the_same(one: Ensemble | Path, other: Ensemble | Path) -> bool:
    """Returns whether two places have the same name, after symbolic links are resolved."""
    if isinstance(one, Path) and isinstance(other, Path):
        return one.resolve() == other.resolve()
    return one == other


def checked_access(source: Ensemble | Path, target: Ensemble | Path, options: PlaceOptions) -> PlaceOptions:
    """Checks that credentials and ACLs are given only for ensembles; returns the options with the credentials.

    This function reads each file of credentials, and no other code reads it again.  The file can be a pipe from another
    process, as in `<(pass show kafka)`, which can be read only once.

    Raises:
        InvalidArgumentError: an option does not apply to its place, or its value or its file is malformed.
    """
    for place, auth, option in ((source, options.source_auth, "--from"), (target, options.target_auth, "--to")):
        if auth is not None and not isinstance(place, Ensemble):
            raise InvalidArgumentError(f"{option}-auth-file is for ZooKeeper, but {option} is the directory {place}")
    if options.acl and not isinstance(target, Ensemble):
        raise InvalidArgumentError(f"--acl is for the nodes of ZooKeeper, but --to is the directory {target}")
    if any(each.scheme == "auth" for each in _acl_of(options.acl)) and options.target_auth is None:
        raise InvalidArgumentError(
            "an ACL entry of the scheme auth stands for the credentials in --to-auth-file; give that option, too"
        )
    return replace(
        options,
        source_credentials=_auth_of(options.source_auth),
        target_credentials=_auth_of(options.target_auth),
    )


def _auth_of(path: Path | None) -> Credentials:
    from offsetlog.zookeeper.auth_file import read_auth_file

    return () if path is None else read_auth_file(path)


def _acl_of(texts: tuple[str, ...]) -> tuple[Acl, ...]:
    from offsetlog.zookeeper.acl import OPEN, parse_acl

    return tuple(map(parse_acl, texts)) or OPEN


def _check_names(place: Ensemble) -> None:
    """Raises ZooKeeperUnavailableError if no host of an ensemble has an address.

    A session would try for ever to connect to a host that has no address.
    """
    unknown = []
    for host in place.hosts.partition("/")[0].split(","):
        name = host.rpartition(":")[0].strip("[]") or host
        if not name:
            return  # not a list of hosts; kazoo reports that
        try:
            socket.getaddrinfo(name, None)
            return
        except (OSError, UnicodeError) as failure:
            unknown.append(f"{name}: {getattr(failure, 'strerror', None) or failure}")
    raise ZooKeeperUnavailableError(f"no host in {place} has an address ({'; '.join(unknown)}); check the host names")


@contextlib.contextmanager
def opened_ensemble(
    place: Ensemble, options: PlaceOptions, auth: Credentials, acl: tuple[str, ...] = ()
) -> Iterator[ZooKeeperPlace]:
    """Opens a session.

    Raises ConfigError if kazoo is missing or the hosts are malformed, and ZooKeeperUnavailableError if no server
    answers.
    """
    # Hides kazoo's warning about each attempt; the command's error says how the last attempt failed.
    logging.getLogger("kazoo").addHandler(logging.NullHandler())
    _check_names(place)
    from offsetlog.migration.zookeeper_place import ZooKeeperPlace
    from offsetlog.zookeeper.connection import REQUEST_BYTES_MAX, ConnectionSettings, ZooKeeperConnection

    most = REQUEST_BYTES_MAX if options.request_bytes_max is None else options.request_bytes_max
    settings = ConnectionSettings(hosts=place.hosts, request_bytes_max=most, auth=auth, acl=_acl_of(acl))
    with ZooKeeperConnection(settings) as connection:
        yield ZooKeeperPlace(connection, in_flight=options.in_flight, split=options.split)


@contextlib.contextmanager
def opened_source(place: Ensemble | Path, options: PlaceOptions) -> Iterator[ZooKeeperPlace | DirectoryPlace]:
    """Opens a place for reading; does not take the lock of a directory."""
    if isinstance(place, Ensemble):
        with opened_ensemble(place, options, options.source_credentials) as ensemble:
            yield ensemble
        return
    from offsetlog.migration.directory_place import DirectoryPlace

    with open_readable(place, None, by_partition=True) as store:
        yield DirectoryPlace(store, permissive=options.permissive)


@contextlib.contextmanager
def target_to_look_at(place: Ensemble | Path, options: PlaceOptions, *, lock: bool) -> Iterator[ReadableTarget]:
    """Opens the target to find out what a migration would write; does not create a missing directory.

    Args:
        place: the target.
        options: the options of the command line.
        lock: whether to open an existing directory for writing, so that nothing changes it before the migration writes.
    """
    if isinstance(place, Path) and not check_log(place, options.partitions, create=True):
        from offsetlog.migration.directory_place import NewDirectory

        yield NewDirectory()
    elif isinstance(place, Path) and not lock:
        from offsetlog.migration.directory_place import DirectoryPlace

        with open_readable(place, options.partitions) as store:
            yield DirectoryPlace(store, permissive=options.permissive)
    else:
        with writable_target(place, options) as target:
            yield target


@contextlib.contextmanager
def writable_target(place: Ensemble | Path, options: PlaceOptions) -> Iterator[ZooKeeperPlace | DirectoryPlace]:
    """Opens a place for writing, and creates a missing directory.  Raises LockedError."""
    if isinstance(place, Ensemble):
        with opened_ensemble(place, options, options.target_credentials, options.acl) as ensemble:
            yield ensemble
        return
    from offsetlog.migration.directory_place import DirectoryPlace

    with open_writable(
        place, options.partitions, "disk", create=True, lock_timeout=options.lock_timeout
    ) as store:
        yield DirectoryPlace(store, permissive=options.permissive)


def is_there(target: ReadableTarget) -> bool:
    """Returns whether a target exists; False for a directory that is still to be created."""
    from offsetlog.migration.directory_place import NewDirectory

    return not isinstance(target, NewDirectory)
