"""Finds the APIs and groups of requests for faults, and creates the answers that refuse requests."""

from __future__ import annotations

from offsetlog import error_codes
from offsetlog.coordinator.answers import join_refusal
from offsetlog.error_codes import ErrorCode
from offsetlog.errors import InvalidArgumentError
from offsetlog.protocol import APIS
from offsetlog.server.answer_errors import error_answer
from offsetlog.server.exchange import Exchange
from offsetlog.server.handlers.cluster import FIND_COORDINATORS
from offsetlog.server.handlers.offsets import FETCH_OF_GROUPS

NAMES = {api.name: api.key for api in APIS.values()}

GROUP_KEY = 0

CODE_MIN, CODE_MAX = -1, 32767


def checked_api(name: str | None) -> int | None:
    """Returns the key of the API that has this name; None if the name is None.

    Raises:
        InvalidArgumentError: the API does not exist.
    """
    if name is None:
        return None
    if name not in NAMES:
        known = ", ".join(sorted(NAMES))
        raise InvalidArgumentError(f"api={name!r} is not served; name one of {known}")
    return NAMES[name]


def checked_code(code: int | str | ErrorCode) -> int:
    """Returns the number of an error.  The error is passed as its number or as its name in Kafka's protocol.

    Raises:
        InvalidArgumentError: there is no such error, or it is NONE.
    """
    if isinstance(code, str):
        named = getattr(error_codes, code, None)
        if not isinstance(named, ErrorCode):
            raise InvalidArgumentError(
                f"code={code!r} is not the name of an error; give the error's number in Kafka's protocol"
            )
        code = named
    number = code.code if isinstance(code, ErrorCode) else code
    if not CODE_MIN <= number <= CODE_MAX or number == 0:
        raise InvalidArgumentError(f"code={code!r} is not an error code of Kafka's protocol")
    return number


def groups_of(exchange: Exchange) -> frozenset[str]:
    """Returns the groups that a request is about; an empty result if it is about no group, for example about topics."""
    message = exchange.request.message
    name = APIS[exchange.request.api_key].name
    if name == "OffsetFetch" and exchange.version >= FETCH_OF_GROUPS:
        return frozenset(each.group_id for each in message.groups)
    if name == "DescribeGroups":
        return frozenset(message.groups)
    if name == "DeleteGroups":
        return frozenset(message.groups_names)
    if name == "FindCoordinator":
        keys = message.coordinator_keys if exchange.version >= FIND_COORDINATORS else [message.key]
        return frozenset(keys if message.key_type == GROUP_KEY else ())
    group = getattr(message, "group_id", None)
    return frozenset() if group is None else frozenset([group])


#: The APIs whose requests can be refused, by name.
REFUSED = frozenset(
    (
        "DeleteGroups", "DescribeGroups", "Fetch", "FindCoordinator", "Heartbeat", "InitProducerId",
        "JoinGroup", "LeaveGroup", "ListGroups", "ListOffsets", "OffsetCommit", "OffsetDelete",
        "OffsetFetch", "Produce", "SyncGroup",
    )
)  # fmt: skip


def refuse(exchange: Exchange, code: int) -> None:
    """Answers a request with an error.  Its API must be in REFUSED."""
    name = APIS[exchange.request.api_key].name
    if name == "Produce" and exchange.request.message.acks == 0:
        # The client waits for no answer: a broker closes the connection so that the producer notices.
        exchange.end(f"a fault: error {code} for a Produce request with acks=0, which gets no answer")
        return
    if name == "JoinGroup":
        member_id = exchange.request.message.member_id
        exchange.reply(join_refusal(exchange.call, ErrorCode(code), member_id))
        return
    exchange.reply(error_answer(exchange.request, code))
