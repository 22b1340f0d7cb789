"""`offsetlog migrate`: what it prints, asks, refuses and leaves, in every direction."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("typer")

from kazoo.security import make_acl, make_digest_acl

import offsetlog
from offsetlog import OffsetAndMetadata, TopicPartition
from offsetlog.cli.app import run
from offsetlog.migration.migration import Migration
from offsetlog.migration.places import GroupOffsets, Held
from offsetlog.migration.zookeeper_place import ZooKeeperPlace

from .zookeeper_offsets import client_of, fill, offsets_in

OFFSETS = {("billing", "orders", str(number)): b"%d" % (100 + number) for number in range(3)} | {
    ("audit-eu", "orders", "0"): b"7",
    ("audit-us", "clicks", "5"): b"9223372036854775807",
}


def call(capsys, *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run(["migrate", *(str(each) for each in arguments)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def stored(path) -> dict[tuple[str, str, str], bytes]:
    with offsetlog.open(path, read_only=True) as store:
        return {
            (row["group"], row["topic"], str(row["partition"])): b"%d" % row["offset"]
            for row in store.to_arrow().to_pylist()
        }


def make(path, groups: dict[str, dict[tuple[str, int], int | OffsetAndMetadata]], partitions: int = 4) -> None:
    with offsetlog.open(path, partitions) as store:
        for group, positions in groups.items():
            store.commit(group, {TopicPartition(*key): value for key, value in positions.items()})


def test_out_of_zookeeper_and_back(hosts, tmp_path, capsys):
    fill(hosts, OFFSETS, ["/consumers/idle/ids", "/consumers/empty/offsets/t"])
    source, data = f"zookeeper://{hosts}", tmp_path / "data"
    code, out, err = call(capsys, "--from", source, "--to", data, "--dry-run")
    assert (code, err) == (0, "")
    rows = out.splitlines()
    assert rows[0] == "group\ttopic\tpartition\tcurrent\toffset\taction"
    assert "audit-us\tclicks\t5\t\t9223372036854775807\tnew" in rows
    assert rows[-2:] == ["5 positions would be added", "nothing was written"]
    assert len(rows) == 8
    assert not data.exists()
    code, out, err = call(capsys, "--from", source, "--to", data, "--yes")
    assert (code, out.splitlines()[1:]) == (0, ["5 positions added"])
    assert err == f"offsetlog: created a new log directory with 4 partitions ({data})\n"
    assert stored(data) == OFFSETS
    code, out, err = call(capsys, "--from", source, "--to", data, "--yes")
    assert (code, out.splitlines()[1:], err) == (0, ["5 positions already in the target"], "")
    # Back, below another root.
    client = client_of(hosts)
    client.create("/other")
    client.stop()
    client.close()
    code, out, err = call(capsys, "--from", data, "--to", f"{source}/other", "--yes")
    assert (code, out.splitlines()[1:], err) == (0, ["5 positions added"], "")
    assert offsets_in(f"{hosts}/other") == OFFSETS
    # Between two of a kind.
    code, out, err = call(capsys, "--from", f"{source}/other", "--to", source, "--yes")
    assert (code, out.splitlines()[1:]) == (0, ["5 positions already in the target"])
    code, out, err = call(capsys, "--from", data, "--to", tmp_path / "more", "--yes", "--partitions", 7)
    assert (code, out.splitlines()[1:]) == (0, ["5 positions added"])
    with offsetlog.open(data, read_only=True) as one, offsetlog.open(tmp_path / "more", read_only=True) as other:
        assert other.partitions == 7
        assert one.groups() == other.groups()
    assert stored(tmp_path / "more") == OFFSETS


def test_json_is_one_object_a_line(hosts, tmp_path, capsys):
    fill(hosts, OFFSETS)
    make(tmp_path / "data", {"billing": {("orders", 0): 100, ("orders", 1): 1, ("orders", 2): 999}})
    code, out, _ = call(
        capsys, "--from", f"zookeeper://{hosts}", "--to", tmp_path / "data", "--groups", "billing", "--dry-run",
        "--format", "json"
    )  # fmt: skip
    *rows, summary = [json.loads(line) for line in out.splitlines()]
    base = {"group": "billing", "topic": "orders"}
    assert rows == [
        {**base, "partition": 1, "current": 1, "offset": 101, "action": "forward"},
        {**base, "partition": 2, "current": 999, "offset": 102, "action": "lower"},
    ]
    assert code == 0
    assert summary == {
        "groups": 1,
        "committed": {"forward": 1},
        "kept": {"same": 1, "lower": 1},
        "dropped": {},
        "refused": 0,
        "examples": [],
        "consumers": [],
        "dry_run": True,
        "incomplete": [],
    }


@pytest.mark.parametrize("to_zookeeper", [False, True])
def test_nothing_goes_back_unless_that_is_asked_for(hosts, tmp_path, capsys, to_zookeeper):
    low, high = ({("g", "t", str(number)): b"%d" % offset for number in range(3)} for offset in (4, 10))
    path, ensemble = tmp_path / "data", f"zookeeper://{hosts}"
    fill(hosts, high if to_zookeeper else low)
    make(path, {"g": {("t", number): 4 if to_zookeeper else 10 for number in range(3)}})
    source, target = (path, ensemble) if to_zookeeper else (ensemble, path)

    def there() -> dict:
        return offsets_in(hosts) if to_zookeeper else stored(path)

    code, out, err = call(capsys, "--from", source, "--to", target, "--yes")
    assert (code, err) == (0, "")
    assert out.splitlines()[1:] == [
        *(f"g\tt\t{number}\t10\t4\tlower" for number in range(3)),
        "3 positions lower than in the target, left as they are",
    ]
    assert there() == high
    code, out, err = call(capsys, "--from", source, "--to", target, "--overwrite")
    assert (code, out) == (1, "")
    assert err == (
        "offsetlog: nothing was done: there is no terminal to ask on; the command would commit to "
        f"{target}: 3 positions moved back (g t:0 10 -> 4, g t:1 10 -> 4, g t:2 10 -> 4); add --yes to do it, or "
        "--dry-run to only show it\n"
    )
    assert there() == high
    code, out, err = call(capsys, "--from", source, "--to", target, "--overwrite", "--yes")
    assert (code, out.splitlines()[1:], err) == (0, ["3 positions moved back"], "")
    assert there() == low


def test_it_asks_before_it_writes(hosts, tmp_path, capsys, monkeypatch):
    fill(hosts, OFFSETS)
    data = tmp_path / "data"
    arguments = ["--from", f"zookeeper://{hosts}", "--to", data, "--groups", "audit-*"]
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (1, "")
    assert "the command would commit to" in err
    assert "2 positions added (audit-eu orders:0 none -> 7, audit-us clicks:5 none -> 9223372036854775807)" in err
    assert not data.exists()
    answers, questions = [False, True], []

    def confirm(question, **options):
        questions.append(question)
        return answers[len(questions) - 1]

    monkeypatch.setattr("offsetlog.cli.consent._is_terminal", lambda: True)
    monkeypatch.setattr("typer.confirm", confirm)
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (1, "")
    assert "audit-eu\torders\t0\t\t7\n" in err
    assert not data.exists()
    code, out, err = call(capsys, *arguments)
    assert (code, out.splitlines()[-1]) == (0, "2 positions added")
    assert questions == [f"Commit to {data}: 2 positions added?"] * 2
    # Nothing to write: nobody is asked, also where there is nobody.
    code, out, err = call(capsys, *arguments)
    assert (code, len(questions), out.splitlines()[-2:]) == (
        0,
        2,
        ["2 positions already in the target", "nothing was written"],
    )


def test_the_question_says_how_much_is_left_out(hosts, tmp_path, capsys):
    fill(hosts, {**OFFSETS, ("billing", "orders", "7"): b"no offset"})
    code, out, err = call(capsys, "--from", f"zookeeper://{hosts}", "--to", tmp_path / "data", "--groups", "billing")
    assert (code, out) == (1, "")
    assert ": 3 positions added; leave out 1 position that cannot be moved (billing orders:0 none -> 100, " in err


def test_a_host_without_an_address_is_an_error_at_once(tmp_path):
    """In a process of its own: without handlers of log records, kazoo's warnings of each attempt were printed."""
    command = [sys.executable, "-m", "offsetlog", "migrate", "--to", str(tmp_path / "data"), "--from"]
    done = subprocess.run(
        [*command, "zookeeper://zk1.invalid:2181,zk2.invalid/kafka"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("offsetlog: no host in zookeeper://zk1.invalid:2181,zk2.invalid/kafka has an address (zk1.")
    assert line.count("zk2.invalid: ") == 1


def test_servers_that_do_not_answer_are_one_line(tmp_path):
    command = """
import sys
from offsetlog.zookeeper import connection
made = connection.ConnectionSettings
connection.ConnectionSettings = lambda **given: made(**given, connection_timeout=2.0)
from offsetlog.cli.app import run
sys.exit(run(sys.argv[1:]))
"""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        place = f"zookeeper://127.0.0.1:{unused.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-c", command, "migrate", "--to", str(tmp_path / "data"), "--from", place],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("offsetlog: ZooKeeper at 127.0.0.1:")
    assert " did not answer within " in line


@pytest.mark.parametrize(
    "text", ["zookeeper:h:2181/kafka", "ZooKeeper:/h:2181", "h:2181", "127.0.0.1:2181/kafka", "a.b:1,c:2/kafka"]
)
def test_an_address_without_its_scheme_makes_no_directory(tmp_path, capsys, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    with offsetlog.open("data", durability="process") as store:
        store.commit_one("g", "t", 0, 1)
    for more in ((), ("--dry-run",)):
        code, _, err = call(capsys, "--from", "data", "--to", text, "--yes", *more)
        assert code == 2
        assert "give the path of a log directory, or zookeeper://HOST:PORT,.../ROOT; for a directory named" in err
        assert f"give './{text}'" in err
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert call(capsys, "--from", "data", "--to", "./h:2181", "--yes")[0] == 0
    # By then it is there.
    assert call(capsys, "--from", "data", "--to", "h:2181", "--yes")[0] == 0


def test_a_bad_node_of_the_target_is_shown_as_it_is(hosts, tmp_path, capsys):
    fill(hosts, {("g", "orders", "2"): b"xyz"})
    with offsetlog.open(tmp_path / "data", durability="process") as store:
        store.commit_one("g", "orders", 2, 102)
    code, _, err = call(capsys, "--from", tmp_path / "data", "--to", f"zookeeper://{hosts}", "--yes")
    assert code == 1
    assert "/consumers/g/offsets/orders/2: the target's value for this position is not an offset: " in err
    assert "(it holds 'xyz')\n" in err


def test_bad_nodes_are_reported_by_path_and_stop_nothing(hosts, tmp_path, capsys):
    bad = {
        ("broken", "orders", "0"): b"not a number",
        ("broken", "orders", "x"): b"5",
        ("broken", "orders", "01"): b"5",
        ("broken", "orders", "2"): b"1" * 100_000,
        ("broken", "orders", "3"): b"",
    }
    fill(hosts, OFFSETS | bad | {("broken", "clicks", "0"): b"7", ("closed", "t", "0"): b"1"})
    client = client_of(hosts)
    client.set_acls("/consumers/closed/offsets/t/0", [make_digest_acl("somebody", "secret", all=True)])
    client.stop()
    client.close()
    code, out, err = call(capsys, "--from", f"zookeeper://{hosts}", "--to", tmp_path / "data", "--yes")
    assert (code, out.splitlines()[-1]) == (1, "6 positions added")
    assert "6 positions refused" in err
    above = "/consumers/broken/offsets/orders"
    assert f"  {above}/0: the offset must be a number from 0 to 9223372036854775807 (it holds 'not a number')\n" in err
    assert f"  {above}/x: the partition must be a number from 0 to 2147483647 (it holds '5')\n" in err
    for number in ("01", "2", "3"):
        assert f"  {above}/{number}: " in err
    closed = "/consumers/closed/offsets/t/0"
    assert f"  {closed}: the ACL of {closed} does not permit this operation" in err
    assert len(err) < 2000
    assert stored(tmp_path / "data") == OFFSETS | {("broken", "clicks", "0"): b"7"}


def test_a_target_whose_node_holds_no_offset_is_not_overwritten(hosts, tmp_path, capsys):
    bad = {("g", "t", "0"): b"x", ("g", "t", "1"): b"5"}
    fill(hosts, bad | {("closed", "t", "0"): b"1"})
    client = client_of(hosts)
    client.set_acls("/consumers/closed/offsets/t/0", [make_digest_acl("somebody", "secret", all=True)])
    client.stop()
    client.close()
    make(tmp_path / "data", {"g": {("t", 0): 9, ("t", 1): 9}, "closed": {("t", 0): 9, ("t", 1): 9}})
    code, out, err = call(capsys, "--from", tmp_path / "data", "--to", f"zookeeper://{hosts}", "--yes", "--overwrite")
    assert (code, out.splitlines()[-1]) == (1, "1 position moved forward")
    assert "/consumers/g/offsets/t/0: the target's value for this position is not an offset: " in err
    assert "group closed, t:1: the group's positions in the target cannot be read: the ACL of" in err
    assert "3 positions refused" in err
    client = client_of(hosts)
    assert [client.get(f"/consumers/g/offsets/t/{number}")[0] for number in range(2)] == [b"x", b"9"]
    assert client.get_children("/consumers/closed/offsets/t") == ["0"]
    client.stop()
    client.close()


def test_names_and_fields_that_zookeeper_cannot_keep(hosts, tmp_path, capsys):
    fill(hosts, {})
    make(
        tmp_path / "data",
        {
            "g": {
                ("t", 0): OffsetAndMetadata(5, "note", leader_epoch=3),
                ("t", 1): OffsetAndMetadata(6, "note"),
                ("t", 2): 7,
                ("a/b", 0): 8,
            },
            "a/b": {("t", 0): 1},
            "": {("t", 0): 1},
            "\U0001f600": {("t", 0): 1},
        },
    )
    code, out, err = call(capsys, "--from", tmp_path / "data", "--to", f"zookeeper://{hosts}", "--yes")
    assert code == 1
    assert out.splitlines()[1:] == [
        "3 positions added",
        "the target keeps no leader epoch: dropped from 1 position",
        "the target keeps no metadata: dropped from 2 positions",
    ]
    assert "4 positions refused" in err
    assert "group a/b, t:0: the group 'a/b' cannot be kept in ZooKeeper" in err
    assert "group g, a/b:0: the topic 'a/b' cannot be kept in ZooKeeper" in err
    assert offsets_in(hosts) == {("g", "t", str(number)): b"%d" % (5 + number) for number in range(3)}
    # A directory keeps them.
    code, out, err = call(capsys, "--from", tmp_path / "data", "--to", tmp_path / "more", "--yes")
    assert (code, out.splitlines()[1:]) == (0, ["7 positions added"])
    with offsetlog.open(tmp_path / "more") as store:
        found = store.fetch_one("g", "t", 0)
        assert (found.offset, found.metadata, found.leader_epoch) == (5, "note", 3)


@pytest.mark.parametrize("in_flight", [4, 64])
def test_a_group_whose_name_no_node_can_have_is_refused_and_stops_no_other(connection, hosts, in_flight):
    names = ["a", "", ".", "a/offsets", "bad\udc80", "z"]
    migration = Migration(_Named(), ZooKeeperPlace(connection, in_flight=in_flight), names)
    assert list(migration.run()) == []
    report = migration.report
    assert (report.groups, report.refused, report.committed) == (6, 4, {"new": 2})
    assert [each.group for each in report.examples] == names[1:5]
    assert all("no node can have this name" in each.reason for each in report.examples)
    assert offsets_in(hosts) == {("a", "t", "0"): b"5", ("z", "t", "0"): b"5"}


class _Named:
    """A source that has one position of each group that it is asked for."""

    has: frozenset[str] = frozenset()
    incomplete: tuple[str, ...] = ()

    def read(self, groups):
        for group in groups:
            yield GroupOffsets(group, {TopicPartition("t", 0): Held(5)})


def test_a_group_that_does_not_fit_a_request(hosts, tmp_path, capsys):
    fill(hosts, {})
    make(tmp_path / "data", {"large": {("t", number): number for number in range(500)}, "small": {("t", 0): 1}})
    arguments = ["--from", tmp_path / "data", "--to", f"zookeeper://{hosts}", "--yes", "--jute-maxbuffer", "8K"]
    code, out, err = call(capsys, *arguments)
    assert (code, out.splitlines()[1:]) == (1, ["1 position added"])
    assert "500 positions refused" in err
    large = "the 500 writes of the group exceed the limit of one request to ZooKeeper (8192 bytes, jute.maxbuffer)"
    assert f"group large, t:0: {large}" in err
    assert offsets_in(hosts) == {("small", "t", "0"): b"1"}
    code, out, err = call(capsys, *arguments, "--split")
    assert (code, out.splitlines()[1:], err) == (0, ["500 positions added", "1 position already in the target"], "")
    assert len(offsets_in(hosts)) == 501


def test_of_a_group_in_several_requests_exactly_what_was_not_made_is_refused(hosts, tmp_path, capsys):
    client = client_of(hosts)
    client.ensure_path("/consumers/large/offsets/z")
    client.set_acls("/consumers/large/offsets/z", [make_acl("world", "anyone", read=True)])
    noted = {("t", number): OffsetAndMetadata(number, "note") for number in range(300)}
    make(tmp_path / "data", {"large": noted | {("z", number): 5 for number in range(30)}})
    arguments = ["--from", tmp_path / "data", "--to", f"zookeeper://{hosts}", "--yes", "--jute-maxbuffer", "8K"]
    code, out, err = call(capsys, *arguments, "--split")
    made = {number for _, topic, number in offsets_in(hosts) if topic == "t"}
    # Closed ones, and those in one request with some of them.
    assert 200 < len(made) < 300
    assert code == 1
    assert out.splitlines()[1:] == [
        f"{len(made)} positions added",
        f"the target keeps no metadata: dropped from {len(made)} positions",
    ]
    assert f"{330 - len(made)} positions refused" in err
    assert "the ACL of /consumers/large/offsets/z/" in err
    code, out, err = call(capsys, *arguments, "--split", "--format", "json")
    summary = json.loads(out.splitlines()[-1])
    assert (code, summary["committed"], summary["kept"]) == (1, {}, {"same": len(made)})
    assert (summary["refused"], summary["dropped"]) == (330 - len(made), {})
    client.stop()
    client.close()


def test_a_group_in_several_requests_whose_first_is_refused(hosts, tmp_path, capsys):
    client = client_of(hosts)
    client.ensure_path("/consumers/large")
    client.set_acls("/consumers/large", [make_acl("world", "anyone", read=True)])
    make(tmp_path / "data", {"large": {("t", number): number for number in range(300)}, "small": {("t", 0): 1}})
    arguments = ["--from", tmp_path / "data", "--to", f"zookeeper://{hosts}", "--yes", "--jute-maxbuffer", "8K"]
    code, out, err = call(capsys, *arguments, "--split")
    assert (code, out.splitlines()[1:]) == (1, ["1 position added"])
    assert "300 positions refused" in err
    assert "group large, t:299: " not in err
    assert err.count("the ACL of /consumers/large/offsets") == 100
    client.stop()
    client.close()


def test_live_consumers_are_named(hosts, tmp_path, capsys):
    fill(hosts, OFFSETS, ["/consumers/billing/ids"])
    client = client_of(hosts)
    client.create("/consumers/billing/ids/one", b"{}", ephemeral=True)
    try:
        code, _, err = call(capsys, "--from", f"zookeeper://{hosts}", "--to", tmp_path / "data", "--dry-run")
        assert code == 0
        assert err == (
            "offsetlog: group billing has live consumers, which may go on committing; stop them and migrate again\n"
        )
    finally:
        client.stop()
        client.close()


def test_what_is_refused_before_anything_is_written(ensemble, hosts, tmp_path, capsys):
    data, zookeeper = tmp_path / "data", f"zookeeper://{hosts}"
    make(data, {"g": {("t", 0): 1}})
    code, _, err = call(capsys, "--from", data, "--to", data / ".." / "data", "--yes")
    assert (code, "the source and the target are the same place" in err) == (2, True)
    code, _, err = call(capsys, "--from", zookeeper, "--to", data, "--yes")
    assert (code, "has no node /consumers; check the root path" in err) == (2, True)
    code, _, err = call(capsys, "--from", data, "--to", f"{zookeeper}/nothing", "--yes")
    assert (code, "ZooKeeper has no node for the root in" in err) == (2, True)
    code, _, err = call(capsys, "--from", "s3://bucket/data", "--to", data, "--yes")
    assert (code, "'s3://bucket/data' is not a place that holds offsets" in err) == (2, True)
    code, _, err = call(capsys, "--from", "zookeeper://", "--to", data, "--yes")
    assert (code, "not a list of hosts" in err) == (2, True)
    code, _, err = call(capsys, "--from", tmp_path / "none", "--to", data, "--yes")
    assert (code, "there is no log directory" in err) == (2, True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    for more in ("--dry-run", "--yes"):
        code, _, err = call(capsys, "--from", data, "--to", tmp_path / "other", more)
        assert (code, "to create a log in this directory, give --partitions N" in err) == (2, True)
    assert stored(data) == {("g", "t", "0"): b"1"}


def test_a_pattern_without_a_group_is_said(hosts, tmp_path, capsys):
    fill(hosts, OFFSETS)
    arguments = ["--from", f"zookeeper://{hosts}", "--to", tmp_path / "data", "--dry-run"]
    code, out, err = call(capsys, *arguments, "--groups", "bill*", "--groups", "nobody")
    assert (code, out.splitlines()[-2]) == (1, "3 positions would be added")
    assert err == f"offsetlog: no group of zookeeper://{hosts} matches 'nobody'\n"


def test_a_directory_that_is_held_is_refused_as_a_target(tmp_path, capsys):
    for name in ("one", "other"):
        make(tmp_path / name, {name: {("t", 0): 1}})
    with offsetlog.open(tmp_path / "other"):
        code, _, err = call(capsys, "--from", tmp_path / "one", "--to", tmp_path / "other", "--yes")
        assert code == 2
        assert "stop it first, or wait with --lock-timeout TIME; commands that only read do not need the lock" in err
        # It can be read.
        code, out, _ = call(capsys, "--from", tmp_path / "other", "--to", tmp_path / "one", "--yes")
        assert (code, out.splitlines()[-1]) == (0, "1 position added")


def test_out_of_a_brokers_directory(tmp_path, capsys):
    broker = Path(__file__).parents[1] / "data" / "kafka-4.3.0" / "groups" / "log"
    code, out, err = call(capsys, "--from", broker, "--to", tmp_path / "data", "--partitions", 3, "--yes")
    assert (code, err.count("\n")) == (0, 1)
    with offsetlog.open(broker, 8, read_only=True) as one, offsetlog.open(tmp_path / "data", read_only=True) as other:
        expected = {
            (group, key): (value.offset, value.metadata, value.leader_epoch)
            for group in one.groups()
            for key, value in one.fetch(group).items()
        }
        found = {
            (group, key): (value.offset, value.metadata, value.leader_epoch)
            for group in other.groups()
            for key, value in other.fetch(group).items()
        }
    assert found == expected
    assert out.splitlines()[1] == f"{len(expected)} positions added"
