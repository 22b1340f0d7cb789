"""`dump --formatter` prints, byte for byte, what Kafka's own formatters printed of the same logs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("typer")

from conformance.kafka_answers import _ENTRY, _GROUP_ENTRY, _entries, lines_of
from conformance.scenarios import Scenario, having
from test_cli_read import call, on_terminal

from offsetlog._native.codec import java_hash, partition_for
from offsetlog._native.encoding import encode_batch, encode_key, encode_value
from offsetlog.cli import formatters
from offsetlog.cli.formatters import _LAST, Formatter, Lines, _parse_version
from offsetlog.errors import InvalidArgumentError

FILES = {"offsets": "formatter-offsets.txt", "groups": "formatter-groups.txt"}
CASES = [(scenario, kind) for kind, name in FILES.items() for scenario in having(name)]


def version_of(scenario: Scenario) -> str:
    """The Kafka whose formatter was asked: the scenario's own; the last of those of an upgrade."""
    name = scenario.path.name
    if scenario.name.startswith("kafka-4.3.0/"):
        return "4.3.0"
    return "3.9.1" if name.startswith("upgraded") else name.partition("-")[0]


def documents(text: str) -> str:
    """The objects that 3.9 prints one after the other, one a line."""
    found, decoder, position = [], json.JSONDecoder(), 0
    while position < len(text):
        if heading := re.compile(r"\n?# partition \d+\n").match(text, position):
            position = heading.end()
            continue
        end = decoder.raw_decode(text, position)[1]
        found.append(text[position:end] + "\n")
        position = end
    return "".join(found)


def in_turns(path: Path, pattern: re.Pattern[str], partitions: int) -> str:
    """The entries that 0.8 and 0.9 print of all partitions in turns, partition by partition."""
    entries = [text for _, text in _entries(path, pattern)]
    entries.sort(key=lambda text: partition_for(pattern.match(text)["group"], partitions))
    return "".join(text + "\n" for text in entries)


def printed(scenario: Scenario, kind: str) -> str:
    """Kafka's own lines, without what the program that made the data put between them."""
    path = scenario.expected(FILES[kind])
    version = version_of(scenario)
    if version == "4.3.0":
        return "".join(line.split("\t", 2)[2] + "\n" for line in lines_of(path))
    text = path.read_bytes().decode()
    if version == "3.9.1":
        return documents(text.rstrip("\n"))
    if version.startswith(("0.8", "0.9")):
        return in_turns(path, _ENTRY if kind == "offsets" else _GROUP_ENTRY, 4)
    return re.sub(r"^# partition \d+\n", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize(("scenario", "kind"), CASES, ids=lambda each: getattr(each, "name", each))
def test_the_lines_are_kafkas(scenario, kind, capsys):
    code, out, _ = call(capsys, "dump", scenario.log, "--formatter", kind, "--kafka", version_of(scenario))
    assert code in {0, 1}
    assert out == printed(scenario, kind)
    if version_of(scenario) == "0.8.2.2":
        assert call(capsys, "dump", scenario.log, "--formatter", "old")[1] == out
    if version_of(scenario) == "4.3.0":
        assert call(capsys, "dump", scenario.log, "--formatter", kind)[1] == out


# ------------------------------------------------------------------------------------------------------ transactions

#: Records of __transaction_state that Kafka 4.3.0 wrote, one of version 0 and a tombstone, and what the formatters of
#: 4.3.0 and those that 3.9.1 has from before (3.8) printed of them.
TRANSACTIONS = [
    (
        "0000000d74782d6f6c642d617564697431",
        "000100000000000000030000000927c00000000001a1fd3cc35cffffffffffffffff0100080000000000000003",
        '{"key":{"type":0,"data":{"transactionalId":"tx-old-audit1"}},"value":{"version":1,"data":{"producerId":3,'
        '"previousProducerId":3,"producerEpoch":0,"transactionTimeoutMs":600000,"transactionStatus":0,'
        '"transactionPartitions":null,"transactionLastUpdateTimestampMs":1795249980252,'
        '"transactionStartTimestampMs":-1}}}',
        "tx-old-audit1::TransactionMetadata(transactionalId=tx-old-audit1, producerId=3, producerEpoch=0, "
        "txnTimeoutMs=600000, state=Empty, pendingState=None, topicPartitions=HashSet(), txnStartTimestamp=-1, "
        "txnLastUpdateTimestamp=1795249980252)",
    ),
    (
        "0000000b74782d612d617564697431",
        "00010000000000000000000f000927c00202135f5f636f6e73756d65725f6f66667365747309000000000000000700000005000000060000"
        "000300000004000000010000000200000001a1fd3cbc4a000001a1fd3cba16020008000000000000000002020002",
        '{"key":{"type":0,"data":{"transactionalId":"tx-a-audit1"}},"value":{"version":1,"data":{"producerId":0,'
        '"previousProducerId":0,"producerEpoch":15,"transactionTimeoutMs":600000,"transactionStatus":2,'
        '"transactionPartitions":[{"topic":"__consumer_offsets","partitionIds":[0,7,5,6,3,4,1,2]}],'
        '"transactionLastUpdateTimestampMs":1795249978442,"transactionStartTimestampMs":1795249977878,'
        '"clientTransactionVersion":2}}}',
        "tx-a-audit1::TransactionMetadata(transactionalId=tx-a-audit1, producerId=0, producerEpoch=15, "
        "txnTimeoutMs=600000, state=PrepareCommit, pendingState=None, topicPartitions=HashSet(__consumer_offsets-0, "
        "__consumer_offsets-7, __consumer_offsets-5, __consumer_offsets-6, __consumer_offsets-3, "
        "__consumer_offsets-4, __consumer_offsets-1, __consumer_offsets-2), txnStartTimestamp=1795249977878, "
        "txnLastUpdateTimestamp=1795249978442)",
    ),
    (
        "000000026964",
        "0000000000000000000700030000ea6001000000010001740000000200000000000000020000018bcfe568000000018bcfe56800",
        '{"key":{"type":0,"data":{"transactionalId":"id"}},"value":{"version":0,"data":{"producerId":7,'
        '"producerEpoch":3,"transactionTimeoutMs":60000,"transactionStatus":1,'
        '"transactionPartitions":[{"topic":"t","partitionIds":[0,2]}],'
        '"transactionLastUpdateTimestampMs":1700000000000,"transactionStartTimestampMs":1700000000000}}}',
        "id::TransactionMetadata(transactionalId=id, producerId=7, producerEpoch=3, txnTimeoutMs=60000, "
        "state=Ongoing, pendingState=None, topicPartitions=HashSet(t-2, t-0), txnStartTimestamp=1700000000000, "
        "txnLastUpdateTimestamp=1700000000000)",
    ),
    (
        "000000026964",
        None,
        '{"key":{"type":0,"data":{"transactionalId":"id"}},"value":null}',
        "id::NULL",
    ),
]


def write_log(folder: Path, records: list[tuple[bytes | None, bytes | None]]) -> Path:
    folder.mkdir(parents=True)
    batches = [encode_batch(number, 1_700_000_000_000, [record]) for number, record in enumerate(records)]
    (folder / "00000000000000000000.log").write_bytes(b"".join(batches))
    return folder


def raw(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def test_transactions(tmp_path, capsys):
    folder = write_log(tmp_path / "__transaction_state-3", [(raw(key), raw(value)) for key, value, *_ in TRANSACTIONS])
    for path in (tmp_path, folder, folder / "00000000000000000000.log"):
        for version, place in (("4.3", 2), ("3.8", 3)):
            code, out, err = call(capsys, "dump", path, "--formatter", "transactions", "--kafka", version)
            assert (code, out.splitlines(), err) == (0, [each[place] for each in TRANSACTIONS], "")
    # Scala 2.12, up to 2.5, names the set otherwise.
    out = call(capsys, "dump", folder, "--formatter", "transactions", "--kafka", "1.1")[1]
    assert "state=Empty, pendingState=None, topicPartitions=Set(), " in out
    # 3.9 calls the type a version.
    out = call(capsys, "dump", folder, "--formatter", "transactions", "--kafka", "3.9")[1]
    assert out.startswith('{"key":{"version":0,"data":')


def test_what_cannot_be_decoded_is_skipped_and_counted(tmp_path, capsys):
    good = raw(TRANSACTIONS[2][0]), raw(TRANSACTIONS[2][1])
    bad = [(good[0], good[1][:-1]), (b"\0\0\0\x09id", None), (None, b"x"), (good[0], b"\0\x07" + good[1][2:])]
    other = [(b"\0\x05" + good[0][2:], good[1])]
    folder = write_log(tmp_path / "__transaction_state-0", [*bad, *other, good])
    code, out, err = call(capsys, "dump", folder, "--formatter", "transactions")
    assert (code, out) == (1, TRANSACTIONS[2][2] + "\n")
    assert err == 'offsetlog: 4 records cannot be decoded; their kind is "undecodable"\n'


def test_a_topic_that_is_not_there(tmp_path, capsys):
    folder = write_log(tmp_path / "__consumer_offsets-0", [])
    code, out, err = call(capsys, "dump", tmp_path, "--formatter", "transactions")
    assert (code, out) == (2, "")
    assert "the directory holds no partition of __transaction_state" in err
    assert "not of __transaction_state" in call(capsys, "dump", folder, "--formatter", "transactions")[2]


# ----------------------------------------------------------------------------------------------------------- the rest


def test_control_characters_are_escaped_on_a_terminal_alone(tmp_path, capsys):
    value = encode_value(1, 1, {"offset": 5, "metadata": "a\x1b[31m\nb", "commitTimestamp": 7, "expireTimestamp": 9})
    key = encode_key(1, {"group": "g\t", "topic": "t", "partition": 0})
    folder = write_log(tmp_path / "__consumer_offsets-0", [(key, value)])
    line = "[g\t,t,0]::[OffsetMetadata[5,a\x1b[31m\nb],CommitTime 7,ExpirationTime 9]\n"
    assert call(capsys, "dump", folder, "--formatter", "offsets", "--kafka", "0.10")[1] == line
    shown = on_terminal("dump", folder, "--formatter", "offsets", "--kafka", "0.10")[1]
    assert shown.splitlines() == [r"[g\t,t,0]::[OffsetMetadata[5,a\x1b[31m\nb],CommitTime 7,ExpirationTime 9]"]


def test_a_terminal_gets_each_line_whole(tmp_path):
    """Copied from there, it is Kafka's line: no blank comes or goes, and none is broken."""
    value = encode_value(1, 3, {"offset": 5, "leaderEpoch": 1, "metadata": f"a  b{' word' * 40}", "commitTimestamp": 7})
    key = encode_key(1, {"group": "g  h", "topic": "t", "partition": 0})
    folder = write_log(tmp_path / "__consumer_offsets-0", [(key, value)])
    shown = on_terminal("dump", folder, "--formatter", "offsets", columns=60)[1]
    assert json.loads(shown)["value"]["data"]["metadata"] == f"a  b{' word' * 40}"


def test_a_version_without_its_last_number_is_the_last_of_its_release():
    assert [_parse_version(text)[:3] for text in ("0.10", "2", "2.8", "2.8.1", "0.8.2.2")] == [
        (0, 10, _LAST),
        (2, _LAST, _LAST),
        (2, 8, _LAST),
        (2, 8, 1),
        (0, 8, 2),
    ]


def test_a_record_that_is_newer_than_the_version_is_printed_in_its_form(tmp_path, capsys):
    value = encode_value(1, 3, {"offset": 5, "leaderEpoch": 2, "metadata": "", "commitTimestamp": 7})
    key = encode_key(1, {"group": "g", "topic": "t", "partition": 0})
    folder = write_log(tmp_path / "__consumer_offsets-0", [(key, value)])
    assert call(capsys, "dump", folder, "--formatter", "old")[1] == "[g,t,0]::OffsetAndMetadata[5,NO_METADATA,7]\n"
    assert call(capsys, "dump", folder, "--formatter", "offsets", "--kafka", "0.9")[1].endswith("ExpirationTime -1]\n")
    assert (
        "leaderEpoch=Optional[2], metadata=, commitTimestamp=7, expireTimestamp=None)"
        in (call(capsys, "dump", folder, "--formatter", "offsets", "--kafka", "2.8")[1])
    )


#: Where the forms of groups begin, with a text that a version has and the one before it has not; of one group with
#: members and of one without.
FORMS = [
    ("0.9", "0.10.1", "[g,Some(consumer),Stable,Map(m -> [m,c,/h,3])]", "[g,None,Empty,Map()]"),
    ("0.10.2", "0.11", "GroupMetadata(groupId=g, generation=7, protocolType=Some(consumer), ", "protocolType=None, "),
    ("1.0.0", "1.0.1", "supportedProtocols=List(range), )))", "protocolType=Some(consumer), currentState=Empty"),
    ("2.2.2", "2.3.1", "groupInstanceId=Some(i), clientId=c, ", "members=Map())"),
    ("2.5.1", "2.6.0", "members=HashMap(m -> MemberMetadata(memberId=m, ", "members=HashMap())"),
    ("2.8.2", "3.0.0", "supportedProtocols=List(range))))", "currentState=Empty"),
    ("3.8.1", "3.9.0", '{"key":{"version":2,"data":{"group":"g"}},', '"members":[]}}}'),
    ("3.9.1", "4.0.0", '{"key":{"type":2,"data":{"group":"g"}},', '"members":[]}}}'),
]


@pytest.mark.parametrize(("before", "version", "full", "empty"), FORMS)
def test_where_the_forms_of_groups_begin(tmp_path, capsys, before, version, full, empty):
    member = {
        "memberId": "m",
        "groupInstanceId": "i",
        "clientId": "c",
        "clientHost": "/h",
        "rebalanceTimeout": 2,
        "sessionTimeout": 3,
        "subscription": b"",
        "assignment": b"",
    }
    fields = {"protocolType": "consumer", "generation": 7, "protocol": "range", "leader": "m"}
    values = [
        encode_value(2, 3, {**fields, "currentStateTimestamp": 5, "members": members}) for members in ([member], [])
    ]
    folder = write_log(tmp_path / "__consumer_offsets-0", [(encode_key(2, {"group": "g"}), value) for value in values])

    def lines(kafka: str) -> list[str]:
        return call(capsys, "dump", folder, "--formatter", "groups", "--kafka", kafka)[1].splitlines()

    assert [text in line for text, line in zip((full, empty), lines(version), strict=True)] == [True, True]
    assert lines(before) != lines(version)


def test_a_topic_id_is_printed_from_4_1_on(tmp_path, capsys):
    scenario = next(each for each in having("formatter-offsets.txt") if each.name == "kafka-4.3.0/expiry")
    newer = call(capsys, "dump", scenario.log, "--formatter", "offsets", "--kafka", "4.1")[1]
    older = call(capsys, "dump", scenario.log, "--formatter", "offsets", "--kafka", "4.0")[1]
    assert newer == printed(scenario, "offsets")
    assert older == re.sub(r',"topicId":"[^"]*"', "", newer) != newer


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--formatter", "old", "--kafka", "0.9"], "--formatter old always prints as Kafka 0.8.2 does"),
        (
            ["--formatter", "groups", "--kafka", "0.8.2"],
            "0.8.2 has no formatter for groups; the first version with this formatter is 0.9",
        ),
        (
            ["--formatter", "transactions", "--kafka", "0.10"],
            "no formatter for transactions; the first version with this formatter is 0.11",
        ),
        (
            ["--formatter", "offsets", "--kafka", "0.7"],
            "no formatter for offsets; the first version with this formatter is 0.8.2",
        ),
        (["--formatter", "offsets", "--kafka", "new"], "'new' is not a Kafka version; write it as 0.10"),
        (["--formatter", "offsets", "--format", "json"], "omit --format and --wide"),
        (["--formatter", "offsets", "--wide"], "omit --format and --wide"),
        (["--kafka", "2.8"], "--kafka needs --formatter"),
    ],
)
def test_what_goes_together(tmp_path, capsys, arguments, says):
    folder = write_log(tmp_path / "__consumer_offsets-0", [])
    code, out, err = call(capsys, "dump", folder, *arguments)
    assert (code, out) == (2, "")
    assert says in err


def test_versions_are_compared_by_number():
    Lines(Formatter.GROUPS, "0.10")
    with pytest.raises(InvalidArgumentError):
        Lines(Formatter.GROUPS, "0.8")


#: The keys of a map and of a set, in the order in which they came, and as Scala walks over them.
KEYS = "k65298 k20153 k37437 k51302 k13205 k42854 k8800 k35006 k11363 k83955 k82689 k70820 k38075"
MAP_2_11 = "k8800 k51302 k42854 k35006 k82689 k13205 k70820 k20153 k37437 k65298 k11363 k38075 k83955"
SET_2_11 = "k35006 k11363 k65298 k20153 k37437 k13205 k82689 k83955 k38075 k70820 k51302 k42854 k8800"
BOTH_2_13 = "k38075 k42854 k11363 k70820 k13205 k20153 k65298 k83955 k82689 k8800 k37437 k51302 k35006"


def test_the_order_of_scalas_tables():
    keys = KEYS.split()
    assert formatters._map_2_11(keys, java_hash) == MAP_2_11.split()
    assert formatters._set_2_11(keys, java_hash) == SET_2_11.split()
    assert formatters._map_2_13(keys, java_hash) == BOTH_2_13.split()
    assert formatters._set_2_13([[key] for key in keys], java_hash) == BOTH_2_13.split()
