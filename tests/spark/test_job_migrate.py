"""Offsets out of a real ZooKeeper, and out of files, into a log directory."""

from __future__ import annotations

import json
import shutil

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl
from migration.cases import ACTION_CASES, ROW_CASES
from zookeeper.ensemble import Ensemble

import offsetlog
from offsetlog import TopicPartition, errors
from offsetlog.cli.spark.session import own_failures
from offsetlog.errors import InvalidArgumentError, MissingFileError
from offsetlog.migration import rules
from offsetlog.migration.directory_place import losses_of
from offsetlog.spark.jobs import migrate
from offsetlog.spark.jobs.tasks.zookeeper import rows_of
from offsetlog.zookeeper.connection import ConnectionSettings, ZooKeeperConnection
from offsetlog.zookeeper.consumer_offsets import groups_in

from .missing_parts import OFF, build, cut_a_middle, directory_of, empty_a_middle, lose_half_of_the_end

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory):
    """A ZooKeeper of one server, filled."""
    with Ensemble(tmp_path_factory.mktemp("zookeeper"), size=1) as running:
        fill(running.hosts)
        yield running.hosts


def fill(hosts):
    client = KazooClient(hosts=hosts, timeout=30)
    client.start(timeout=60)
    try:
        for number in range(20):
            for partition in range(3):
                node = f"/kafka/consumers/group-{number}/offsets/orders/{partition}"
                client.create(node, b"%d" % (100 * number + partition), makepath=True)
        client.create("/kafka/consumers/group-0/owners/orders/0", b"somebody", makepath=True)
        client.create("/kafka/consumers/idle/ids", makepath=True)
        client.create("/kafka/consumers/broken/offsets/orders/0", b"not a number", makepath=True)
        client.create("/kafka/consumers/broken/offsets/orders/x", b"5", makepath=True)
        client.create("/kafka/consumers/broken/offsets/orders/2", b"-1", makepath=True)
        client.create("/kafka/consumers/broken/offsets/clicks/0", b"7", makepath=True)
        client.create("/kafka/storm/spout/partition_0", b"{}", makepath=True)
    finally:
        client.stop()
        client.close()


@pytest.mark.ci
def test_what_stands_in_zookeeper(zookeeper):
    with ZooKeeperConnection(ConnectionSettings(hosts=f"{zookeeper}/kafka")) as connection:
        names = groups_in(connection)
        for in_flight in (1, 64):
            found = list(rows_of(connection, names, in_flight))
            assert len(found) == 64
            assert [each[:4] for each in found if each[0] == "group-7"] == [
                ("group-7", "orders", str(partition), str(700 + partition)) for partition in range(3)
            ]
            assert all(each[4] > 1_600_000_000_000 for each in found)


TEXT = "group string, topic string, partition string, offset string"


def test_the_rules_of_rows(spark):
    rows = spark.createDataFrame([row for case in ROW_CASES for row in case.rows], TEXT)
    found = migrate.checked(rows).collect()
    expected = [(tuple(row), reason) for case in ROW_CASES for row, reason in zip(*case[1:], strict=True)]
    assert sorted([(tuple(row)[:4], row.reason) for row in found], key=str) == sorted(expected, key=str)
    for row in found:
        if row.reason is None:
            assert (row.number, row.committed) == (int(row.partition), int(row.offset))


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("is_lost", [False, True])
def test_the_rules_of_actions(spark, overwrite, is_lost):
    rows = [(f"g{number}", "t", "0", str(case.offset)) for number, case in enumerate(ACTION_CASES)]
    there = [
        (f"g{number}", "t", 0, case.current) for number, case in enumerate(ACTION_CASES) if case.current is not None
    ]
    offsets = spark.createDataFrame(there, "group string, topic string, partition int, offset bigint")
    chosen = migrate.compared(migrate.checked(spark.createDataFrame(rows, TEXT)), offsets, overwrite=overwrite)
    chosen = migrate.marked_lost(chosen, [row[0] for row in rows] if is_lost else [])
    found = {row.group: row.action for row in chosen.collect()}
    for number, case in enumerate(ACTION_CASES):
        wanted = case.overwriting if overwrite else case.action
        assert found[f"g{number}"] == (rules.action_of(case.offset, case.current, overwrite=overwrite, is_lost=is_lost))
        assert found[f"g{number}"] == (wanted if not is_lost or wanted in rules.KEPT else "lost"), case
        if is_lost and not overwrite:
            assert found[f"g{number}"] == case.lost


def test_from_zookeeper_into_a_new_directory(spark, zookeeper, tmp_path):
    rows = migrate.from_zookeeper(spark, zookeeper, root="/kafka", tasks=3)
    tried = migrate.run(spark, rows, tmp_path / "data", partitions=4, dry_run=True)
    assert not (tmp_path / "data").exists()
    done = migrate.run(spark, rows, tmp_path / "data", partitions=4)
    assert done.committed == tried.committed == {"new": 61}
    assert (done.kept, done.refused, tried.dry_run) == ({}, 3, True)
    assert {(each["partition"], each["offset"], each["reason"]) for each in done.examples} == {
        ("0", "not a number", "the offset must be a number from 0 to 9223372036854775807"),
        ("2", "-1", "the offset must be a number from 0 to 9223372036854775807"),
        ("x", "5", "the partition must be a number from 0 to 2147483647"),
    }
    with offsetlog.open(tmp_path / "data") as store:
        assert store.partitions == 4
        assert store.to_arrow().num_rows == 61
        found = store.fetch("group-3")
        assert {key.partition: value.offset for key, value in found.items()} == {0: 300, 1: 301, 2: 302}
        assert store.fetch_one("broken", "clicks", 0).offset == 7


def test_what_cannot_be_read_is_said(spark, zookeeper, tmp_path):
    def tried(hosts, root, groups=None):
        rows = migrate.from_zookeeper(spark, hosts, root=root, groups=groups)
        with pytest.raises(Exception) as caught, own_failures():  # noqa: PT011
            migrate.run(spark, rows, tmp_path / "data", dry_run=True)
        return caught.value

    assert "has no node /consumers; check the root path" in str(tried(zookeeper, ""))
    assert "not a list of hosts" in str(tried("zk1:port", ""))
    client = KazooClient(hosts=f"{zookeeper}/kafka", timeout=30)
    client.start(timeout=60)
    try:
        client.create("/consumers/closed/offsets/t/0", b"1", makepath=True)
        client.set_acls("/consumers/closed/offsets/t/0", [make_digest_acl("somebody", "secret", all=True)])
        failure = tried(zookeeper, "/kafka", ["closed"])
        assert "the ACL of /consumers/closed/offsets/t/0 does not permit" in str(failure)
    finally:
        # It may not be read, and so not be removed with what is above it.
        client.delete("/consumers/closed/offsets/t/0")
        client.delete("/consumers/closed", recursive=True)
        client.stop()
        client.close()


def test_from_a_dump_beside_what_is_there(spark, tmp_path):
    places = [TopicPartition("orders", number) for number in range(4)]
    with offsetlog.open(tmp_path / "data", 2) as store:
        store.commit("billing", {places[0]: 10, places[1]: 10, places[2]: 10})
    lines = [
        {"path": "/consumers/billing/offsets/orders/0", "value": "11"},
        {"path": "/kafka/consumers/billing/offsets/orders/1", "value": "9"},
        {"group": "billing", "topic": "orders", "partition": 2, "offset": 10},
        {"group": "billing", "topic": "orders", "partition": 3, "offset": 3},
        {"path": "/consumers/billing/owners/orders/0", "value": "somebody"},
        {"group": "twice", "topic": "orders", "partition": 0, "offset": 3},
        {"group": "twice", "topic": "orders", "partition": 0, "offset": 4},
        {"group": "g" * 32768, "topic": "orders", "partition": 0, "offset": 3},
        {"group": "", "topic": "orders", "partition": 0, "offset": 3},
        {"group": "large", "topic": "orders", "partition": 2**31, "offset": 3},
        {"group": "large", "topic": "orders", "partition": 0, "offset": 2**63},
    ]
    dump = tmp_path / "dump.jsonl"
    dump.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = migrate.run(spark, migrate.from_dump(spark, dump), tmp_path / "data")
    assert (done.committed, done.kept, done.refused) == ({"new": 1, "forward": 1}, {"same": 1, "lower": 1}, 6)
    assert sorted(str(each["reason"]) for each in done.examples) == [
        "the group has more than 32767 bytes",
        "the group is missing",
        "the offset must be a number from 0 to 9223372036854775807",
        "the partition must be a number from 0 to 2147483647",
        "the position appears more than once, with different offsets",
        "the position appears more than once, with different offsets",
    ]
    with offsetlog.open(tmp_path / "data") as store:
        assert [store.fetch_one("billing", *place).offset for place in places] == [11, 10, 10, 3]
    table = tmp_path / "dump.csv"
    table.write_text("path,value\n/consumers/billing/offsets/orders/1,9\n")
    done = migrate.run(spark, migrate.from_dump(spark, table), tmp_path / "data", overwrite=True)
    assert done.committed == {"back": 1}
    with offsetlog.open(tmp_path / "data") as store:
        assert store.fetch_one("billing", "orders", 1).offset == 9


@pytest.fixture
def rewinding(tmp_path):
    """A directory, and a dump that moves two of its positions back, one forward, and adds one."""
    with offsetlog.open(tmp_path / "data", 2) as store:
        store.commit("billing", {TopicPartition("orders", number): 10 for number in range(3)})
    (tmp_path / "dump.csv").write_text(
        "group,topic,partition,offset\nbilling,orders,0,4\nbilling,orders,1,5\nbilling,orders,2,11\nnew,t,0,1\n"
    )
    return tmp_path / "data", tmp_path / "dump.csv"


def digest_of(path):
    with offsetlog.open(path, read_only=True) as store:
        return store.digest(physical=True)


def test_going_back_is_asked_for_before_anything_is_written(spark, rewinding):
    path, dump = rewinding
    asked = []

    def agree(counts, rows):
        asked.append((counts, [tuple(row.values()) for row in rows]))
        if len(asked) == 1:
            raise RuntimeError("no")

    before = digest_of(path)
    rows = migrate.from_dump(spark, dump)
    with pytest.raises(RuntimeError, match="no"):
        migrate.run(spark, rows, path, overwrite=True, agree=agree)
    assert digest_of(path) == before
    assert migrate.run(spark, rows, path, overwrite=True, agree=agree, dry_run=True).committed["back"] == 2
    assert len(asked) == 1
    done = migrate.run(spark, rows, path, overwrite=True, agree=agree, examples=1)
    assert done.committed == {"new": 1, "forward": 1, "back": 2}
    counts = {"new": 1, "forward": 1, "back": 2}
    first, second = ("billing", "orders", 0, 10, 4), ("billing", "orders", 1, 10, 5)
    assert asked == [(counts, [first, second]), (counts, [first])]
    # Nothing goes back: nobody is asked.
    migrate.run(spark, rows, path, overwrite=True, agree=agree)
    migrate.run(spark, rows, path, agree=agree)
    assert len(asked) == 2


def test_the_command_asks_before_it_moves_back(spark, rewinding, capsys, monkeypatch):
    pytest.importorskip("typer")
    from offsetlog.cli.app import run

    path, dump = rewinding
    before = digest_of(path)
    command = ["spark", "migrate", str(path), "--dump", str(dump), "--overwrite"]
    deed = f"commit to {path}: 1 position added, 1 position moved forward, 2 positions moved back"
    assert run(command) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        f"offsetlog: nothing was done: there is no terminal to ask on; the command would {deed} (billing orders:0 10 "
        "-> 4, billing orders:1 10 -> 5); add --yes to do it, or --dry-run to only show it\n"
    )
    questions = []

    def confirm(question, **options):
        questions.append(question)
        return False

    monkeypatch.setattr("offsetlog.cli.consent._is_terminal", lambda: True)
    monkeypatch.setattr("typer.confirm", confirm)
    assert run(command) == 1
    assert questions == [f"C{deed[1:]}?"]
    assert "billing\torders\t1\t10\t5\n" in capsys.readouterr().err
    assert digest_of(path) == before
    assert run([*command, "--yes"]) == 0
    assert len(questions) == 1
    with offsetlog.open(path, read_only=True) as store:
        assert [store.fetch_one("billing", "orders", number).offset for number in range(3)] == [4, 5, 11]
    capsys.readouterr()


def test_a_group_without_offsets_in_the_source_is_reported(spark, rewinding, zookeeper, capsys):
    pytest.importorskip("typer")
    from offsetlog.cli.app import run

    path, dump = rewinding
    given = ["spark", "migrate", str(path), "--dump", str(dump)]
    assert run([*given, "--group", "new", "--group", "nwe"]) == 1
    printed = capsys.readouterr()
    assert printed.err == "offsetlog: group nwe has no offsets in the source\n"
    with offsetlog.open(path, read_only=True) as store:
        assert store.fetch_one("new", "t", 0).offset == 1
    assert run([*given, "--group", "new"]) == 0
    before = digest_of(path)
    given[3:] = ["--zookeeper", f"{zookeeper}/kafka", "--dry-run"]
    assert run([*given, "--group", "nobody"]) == 1
    assert "group nobody has no offsets in the source" in capsys.readouterr().err
    assert run([*given, "--group", "group-3"]) == 0
    assert digest_of(path) == before


def test_a_target_that_is_open_is_waited_for(spark, rewinding, capsys):
    pytest.importorskip("typer")
    from offsetlog.cli.app import run

    path, dump = rewinding
    command = ["spark", "migrate", str(path), "--dump", str(dump), "--lock-timeout"]
    with offsetlog.open(path):
        assert run([*command, "10ms"]) == 2
        shown = capsys.readouterr().err
        assert "after 0.01 s of waiting" in shown
        assert "wait with --lock-timeout TIME" in shown
        assert "lock_timeout=" not in shown
    assert run([*command, "60s"]) == 0


def test_refusals_name_the_line(spark, tmp_path):
    lines = [
        '{"group": "a", "topic": "t", "partition": 0, "offset": 1}',
        "",
        "no JSON at all",
        '{"group": "a", "topic": "t", "partition": 1.0, "offset": 1}',
        '{"path": "/consumers/a/owners/t/0", "value": "x"}',
        '["a", "t", 0, 1]',
        '{"path": "/consumers/a/offsets/t/2", "value": ""}',
        '{"group": "a\\u0000/ü", "topic": "t", "partition": 0, "offset": "+5"}',
    ]
    dump = tmp_path / "a dump%.jsonl"
    dump.write_text("\r\n".join(lines))
    done = migrate.run(spark, migrate.from_dump(spark, dump), tmp_path / "data", partitions=2)
    assert done.committed == {"new": 1}
    assert [(each["line"], str(each["reason"]).split(" from ")[0]) for each in done.examples] == [
        (3, "not a row of group, topic, partition and offset"),
        (4, "the partition must be a number"),
        (6, "not a row of group, topic, partition and offset"),
        (7, "the offset must be a number"),
        (8, "the offset must be a number"),
    ]
    assert {str(each["file"]) for each in done.examples} == {dump.name}
    assert done.refused == 5


def test_lines_are_counted_over_the_blocks_of_a_large_file(spark, tmp_path):
    dump = tmp_path / "dump.jsonl"
    wrong = {7, 1500, 2999}
    with dump.open("w") as file:
        for number in range(1, 3001):
            row = {"group": f"group-{number}", "topic": "t", "partition": 0, "offset": "x" if number in wrong else 1}
            file.write(json.dumps(row) + "\n")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "10000")
    try:
        rows = migrate.from_dump(spark, dump)
        assert rows.rdd.getNumPartitions() > 5
        found = migrate.checked(rows).where("reason is not null").collect()
        assert rows.count() == 3000
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert {(row.line, row.group) for row in found} == {(number, f"group-{number}") for number in wrong}


def test_a_table_with_odd_names_and_headings(spark, tmp_path):
    table = tmp_path / "dump.csv"
    text = '\ufeffTopic, Group ,note,PARTITION,offset\nt,"a ""b"", c\\",x,0,5\n\nt,"d",x,0,five\n'
    table.write_text(text)
    done = migrate.run(spark, migrate.from_dump(spark, table), tmp_path / "data", partitions=2)
    assert (done.committed, done.refused) == ({"new": 1}, 1)
    assert [(each["line"], each["group"]) for each in done.examples] == [(4, "d")]
    with offsetlog.open(tmp_path / "data") as store:
        assert store.groups() == ['a "b", c\\']
    for heading in ("a,b,c", "group,topic,partition", "path", "group,group,topic,partition,offset", ""):
        table.write_text(f"{heading}\nt,a,x,0,5\n")
        with pytest.raises(InvalidArgumentError, match="the heading"):
            migrate.from_dump(spark, table)
    with pytest.raises(MissingFileError):
        migrate.from_dump(spark, tmp_path / "none.csv")


damaged = pytest.mark.filterwarnings("ignore::offsetlog.errors.CorruptionWarning")


def after_a_broker(path):
    """Makes a store whose checkpoints another program wrote, so that a gap in its log is in doubt and no loss."""
    build(path, "closed")
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        checkpoint = path / name
        checkpoint.write_bytes(checkpoint.read_bytes().replace(b"__consumer_offsets 1 ", b"__consumer_offsets 1 0"))
    return path


@pytest.mark.ci
def test_only_positions_of_the_groups_that_come_travel_to_spark(spark, tmp_path, monkeypatch):
    # A launch of a task that carried the 1 M positions of a directory never reached an executor of 512 MiB.
    with offsetlog.open(tmp_path / "data") as store:
        store.commit("large", {TopicPartition("orders", number): 7 for number in range(5000)})
        store.commit("old", {TopicPartition("orders", number): 7 for number in range(3)})
    sent, in_pieces = [], migrate._in_pieces
    monkeypatch.setattr(migrate, "_ROWS_OF_A_TASK", 1)
    monkeypatch.setattr(migrate, "_in_pieces", lambda *given: sent.append(in_pieces(*given)) or sent[0])
    dump = tmp_path / "dump.jsonl"
    lines = [{"group": "old", "topic": "orders", "partition": number, "offset": 6 + number} for number in range(4)]
    dump.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = migrate.run(spark, migrate.from_dump(spark, dump), tmp_path / "data")
    tasks = sent[0].rdd.glom().map(len).collect()
    assert (sum(tasks), max(tasks)) == (3, 1)
    assert (done.committed, done.kept) == ({"new": 1, "forward": 1}, {"same": 1, "lower": 1})


@damaged
@pytest.mark.parametrize("fault", [cut_a_middle, empty_a_middle])
def test_offsets_that_may_be_lost_are_refused(tmp_path, fault):
    log = after_a_broker(tmp_path / "data")
    fault(log)
    with offsetlog.open(log, read_only=True) as store:
        with pytest.raises(errors.PossibleLossError, match="offsets are missing"):
            losses_of(store, permissive=False)
        assert len(losses_of(store, permissive=True)) == 1


@damaged
def test_a_missing_witness_is_no_loss_of_a_target(tmp_path):
    log = build(tmp_path / "data", "closed")
    (directory_of(log) / "offsetlog.manifest").unlink()
    with offsetlog.open(log, read_only=True) as store:
        assert losses_of(store, permissive=False) == []


@damaged
def test_a_target_without_its_log_partitions_is_no_new_one(spark, tmp_path):
    log = build(tmp_path / "data", "closed")
    for number in range(2):
        shutil.rmtree(log / f"__consumer_offsets-{number}")
    rows = spark.createDataFrame(
        [("g0", "t", "0", "5", None)], "group string, topic string, partition string, offset string, moment bigint"
    )
    with pytest.raises(errors.DataLossError, match="is missing"):
        migrate.run(spark, rows, log, dry_run=True)
    done = migrate.run(spark, rows, log, dry_run=True, permissive=True)
    assert (done.committed, done.kept, len(done.incomplete)) == ({}, {"lost": 1}, 2)


@damaged
def test_permissive_commits_to_the_log_partitions_that_are_whole(spark, tmp_path):
    log = build(tmp_path / "data", "closed")
    lose_half_of_the_end(log)
    rows = spark.createDataFrame(
        [(f"new{number}", "t", "0", str(number), None) for number in range(8)],
        "group string, topic string, partition string, offset string, moment bigint",
    )
    planned = migrate.run(spark, rows, log, dry_run=True, permissive=True)
    done = migrate.run(spark, rows, log, permissive=True)
    assert (planned.committed, planned.kept) == (done.committed, done.kept)
    assert len(done.incomplete) == 1
    assert done.committed["new"] + done.kept["lost"] == 8
    with offsetlog.open(log, maintenance=OFF) as store:
        assert len([n for n in range(8) if store.fetch_one(f"new{n}", "t", 0)]) == done.committed["new"] > 0
