"""The places of a migration as they are typed, and how a command opens them."""

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
    """ZooKeeper as a place: the hosts with the root, as in `zookeeper.connect`."""

    hosts: str

    def __str__(self) -> str:
        return SCHEME + self.hosts


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """The options of the command line about places.

    Attributes:
        partitions: of a new directory, or of one of Kafka's that is a target.
        permissive: whether a directory of which something is missing is taken.
        in_flight: questions to ZooKeeper that are outstanding at most, of each kind.
        request_bytes_max: of one write to ZooKeeper; None for its default.
        split: whether larger groups are written in several.
        source_auth: the file of credentials for the ensemble that is the source.
        target_auth: that for the target.
        acl: permissions of the nodes that are made, as they are typed; nothing for everybody.
        source_credentials: pairs of scheme and credential from the file, which `checked_access` has read.
        target_credentials: those for the target.
        lock_timeout: how long to wait for a directory that another process writes to, in seconds.
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
        InvalidArgumentError: the text is an address of another form.
    """
    if text.startswith(SCHEME):
        return Ensemble(text.removeprefix(SCHEME).rstrip("/"))
    path = Path(text)
    # A mistyped address must not create a directory of that name and report success.
    if "://" in text or (_ADDRESS.match(text) and not path.exists()):
        raise InvalidArgumentError(
            f"{text!r} is not a place of offsets; give {SCHEME}HOST:PORT,.../ROOT, or the path of a log directory"
            + ("" if "://" in text else f" (./{text} for a directory of that name)")
        )
    return path


def are_the_same(one: Ensemble | Path, other: Ensemble | Path) -> bool:
    """Returns whether two places are the same, as far as their names show it."""
    if isinstance(one, Path) and isinstance(other, Path):
        return one.resolve() == other.resolve()
    return one == other


def checked_access(source: Ensemble | Path, target: Ensemble | Path, options: PlaceOptions) -> PlaceOptions:
    """Checks that credentials and ACLs are given only for ensembles; returns the options with the credentials.

    Each file is read only here: a pipe from another process, as in `<(pass show kafka)`, can be read only once.

    Raises:
        InvalidArgumentError: an option does not apply to its place, or its value or file is malformed.
    """
    for place, auth, option in ((source, options.source_auth, "--from"), (target, options.target_auth, "--to")):
        if auth is not None and not isinstance(place, Ensemble):
            raise InvalidArgumentError(f"{option}-auth-file is for ZooKeeper, but {option} is the directory {place}")
    if options.acl and not isinstance(target, Ensemble):
        raise InvalidArgumentError(f"--acl is for the nodes of ZooKeeper, but --to is the directory {target}")
    if any(each.scheme == "auth" for each in _acl_of(options.acl)) and options.target_auth is None:
        raise InvalidArgumentError("--acl auth:: means the credentials of --to-auth-file; give that option, too")
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
    """Raises ZooKeeperUnavailableError if no host of an ensemble has an address; a session would keep waiting."""
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
    raise ZooKeeperUnavailableError(f"no host of {place} has an address ({'; '.join(unknown)}); check the names")


@contextlib.contextmanager
def opened_ensemble(
    place: Ensemble, options: PlaceOptions, auth: Credentials, acl: tuple[str, ...] = ()
) -> Iterator[ZooKeeperPlace]:
    """Opens a session; raises ConfigError (kazoo is missing, malformed hosts) and ZooKeeperUnavailableError."""
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
    """Opens a place to read it; a directory's lock is not taken."""
    if isinstance(place, Ensemble):
        with opened_ensemble(place, options, options.source_credentials) as ensemble:
            yield ensemble
        return
    from offsetlog.migration.directory_place import DirectoryPlace

    with open_readable(place, None, by_partition=True) as store:
        yield DirectoryPlace(store, permissive=options.permissive)


@contextlib.contextmanager
def target_to_look_at(place: Ensemble | Path, options: PlaceOptions, *, lock: bool) -> Iterator[ReadableTarget]:
    """Opens a place to see what would be written; a directory that does not exist is not created.

    Args:
        place: the target.
        options: the options of the command line.
        lock: whether an existing directory is opened for writing, so that nothing changes before the migration writes.
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
    """Opens a place for writing; a directory that does not exist is created.  Raises LockedError."""
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
    """Returns whether a place exists; a directory that is still to be created does not."""
    from offsetlog.migration.directory_place import NewDirectory

    return not isinstance(target, NewDirectory)
