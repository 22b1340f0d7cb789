"""Translates kazoo's errors to those of offsetlog, and says which errors mean that a write was not applied."""

from __future__ import annotations

from typing import Any

from offsetlog.errors import (
    NodeExistsError,
    NodeNotEmptyError,
    NodeVersionError,
    NoNodeError,
    SessionExpiredError,
    ZooKeeperError,
    ZooKeeperUnavailableError,
)

#: Error numbers for which not every version of kazoo has a class.
REQUEST_TIMEOUT, QUOTA_EXCEEDED, THROTTLED = -122, -125, -127


class KazooErrors:
    """The meaning of kazoo's errors.

    Args:
        kinds: kazoo's module of exceptions.
    """

    def __init__(self, kinds: Any) -> None:
        self._kinds = kinds

    def is_refusal(self, failure: BaseException) -> bool:
        """Whether an error means that a server did not apply a write.

        An error of the connection, or an error inside the server, does not show whether the write was applied.  For
        example, when two clients had the same session, a server of version 3.9 applied a write and yet answered with
        MarshallingError.
        """
        kinds = self._kinds
        return isinstance(
            failure,
            (
                kinds.NoNodeError,
                kinds.NodeExistsError,
                kinds.BadVersionError,
                kinds.NotEmptyError,
                kinds.NoChildrenForEphemeralsError,
                kinds.NoAuthError,
                kinds.AuthFailedError,
                kinds.InvalidACLError,
                kinds.BadArgumentsError,
                self._numbered(QUOTA_EXCEEDED),
            ),
        )

    def _numbered(self, code: int) -> Any:
        """Returns the error class that kazoo has for a number, or an empty tuple if this version of kazoo has none."""
        return self._kinds.EXCEPTIONS.get(code, ())

    def refusal_of(self, failure: BaseException, node: str) -> ZooKeeperError:
        """Returns the error of offsetlog for an error of kazoo.

        Args:
            failure: kazoo's error.
            node: the path of the node that the request concerned.
        """
        kinds = self._kinds
        table: tuple[tuple[Any, type[ZooKeeperError], str], ...] = (
            (kinds.NoNodeError, NoNodeError, "node {0} or its parent does not exist"),
            (kinds.NodeExistsError, NodeExistsError, "node {0} already exists"),
            (kinds.BadVersionError, NodeVersionError, "node {0} has been changed since it was read"),
            (kinds.NotEmptyError, NodeNotEmptyError, "node {0} has child nodes"),
            (kinds.SessionExpiredError, SessionExpiredError, "the session with ZooKeeper expired"),
            (kinds.ConnectionLoss, ZooKeeperUnavailableError, "the connection to ZooKeeper broke"),
            (kinds.ConnectionClosedError, ZooKeeperUnavailableError, "the connection to ZooKeeper is closed"),
            (kinds.SessionMovedError, ZooKeeperUnavailableError, "the session has moved to another server"),
            (kinds.OperationTimeoutError, ZooKeeperUnavailableError, "ZooKeeper timed out on a request"),
            (self._numbered(REQUEST_TIMEOUT), ZooKeeperUnavailableError, "ZooKeeper did not answer a request in time"),
            (self._numbered(THROTTLED), ZooKeeperUnavailableError, "ZooKeeper is overloaded with requests"),
            (
                self._numbered(QUOTA_EXCEEDED),
                ZooKeeperError,
                "the write would exceed a quota of node {0}",
            ),
            (kinds.AuthFailedError, ZooKeeperError, "ZooKeeper refuses the credentials of this connection"),
            (kinds.NoAuthError, ZooKeeperError, "the ACL of {0} does not permit this operation to this connection"),
            (kinds.InvalidACLError, ZooKeeperError, "ZooKeeper refuses the ACL for {0}; check the credentials"),
        )
        for kind, ours, text in table:
            if isinstance(failure, kind):
                return ours(text.format(node), node=node)
        reason = str(failure) or type(failure).__name__
        if not isinstance(failure, kinds.ZookeeperError):
            # The error is not a server's: the client met something that it does not know, and ends.
            return ZooKeeperUnavailableError(f"the connection to ZooKeeper broke: {reason}", node=node)
        return ZooKeeperError(f"ZooKeeper refuses {node}: {reason}", node=node)
