"""`offsetlog migrate` where nodes have owners: credentials come from files, and the nodes that it makes get ACLs."""

from __future__ import annotations

import os
import re

import pytest

pytest.importorskip("typer")

from kazoo.client import KazooClient
from kazoo.security import make_acl, make_digest_acl

import offsetlog
from offsetlog import TopicPartition
from offsetlog.cli.app import run
from offsetlog.cli.migration_places import Ensemble, PlaceOptions, checked_access

from .zookeeper_offsets import client_of, fill, offsets_in

OFFSETS = {("g", "t", str(number)): b"%d" % (100 + number) for number in range(3)}
SECRET = "pass:word"


@pytest.fixture
def auth_file(tmp_path):
    return credentials(tmp_path, f"# whose they are\n\ndigest:kafka:{SECRET}\n")


def credentials(folder, text: str, mode: int = 0o600):
    path = folder / "auth"
    path.write_text(text)
    path.chmod(mode)
    return path


def call(capsys, *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run(["migrate", *(str(each) for each in arguments), "--yes"])
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err
    return code, printed.out, printed.err


def make(path, offset: int) -> None:
    with offsetlog.open(path, 1) as store:
        store.commit("g", {TopicPartition("t", number): offset for number in range(3)})


def close_to_others(hosts: str) -> None:
    """Leaves all nodes of the group to one user."""
    client = client_of(hosts)
    owner = [make_digest_acl("kafka", SECRET, all=True)]
    for node in [f"offsets/t/{number}" for number in range(3)] + ["offsets/t", "offsets"]:
        client.set_acls(f"/consumers/g/{node}", owner)
    client.stop()
    client.close()


def acls_in(hosts: str) -> dict[str, list]:
    """Returns the ACLs of all nodes from /consumers down, as somebody with the credentials sees them."""
    client = KazooClient(hosts=hosts, auth_data=[("digest", f"kafka:{SECRET}")])
    client.start(timeout=60)
    found = {}

    def look(node: str) -> None:
        found[node] = client.get_acls(node)[0]
        for name in client.get_children(node):
            look(f"{node}/{name}")

    look("/consumers")
    client.stop()
    client.close()
    return found


def test_a_source_that_only_its_owner_may_read(hosts, tmp_path, capsys, auth_file):
    fill(hosts, OFFSETS)
    close_to_others(hosts)
    arguments = ["--from", f"zookeeper://{hosts}", "--to", tmp_path / "data"]
    code, out, err = call(capsys, *arguments)
    assert (code, out.splitlines()[1:]) == (1, [])
    assert "/consumers/g/offsets: the ACL of /consumers/g/offsets does not permit this operation" in err
    code, out, _ = call(capsys, *arguments, "--from-auth-file", auth_file)
    assert (code, out.splitlines()[-1]) == (0, "3 positions added")


def test_the_nodes_that_it_makes_have_the_acl(hosts, tmp_path, capsys, auth_file):
    make(tmp_path / "data", 7)
    arguments = ["--from", tmp_path / "data", "--to", f"zookeeper://{hosts}"]
    acl = ["--acl", "auth::cdrwa", "--acl", "world:anyone:r"]
    code, out, err = call(capsys, *arguments, "--to-auth-file", auth_file, *acl)
    assert (code, out.splitlines()[-1], err) == (0, "3 positions added", "")
    found = acls_in(hosts)
    assert len(found) == 1 + 3 + 3
    wanted = [make_digest_acl("kafka", SECRET, all=True), make_acl("world", "anyone", read=True)]
    assert all(sorted(each) == sorted(wanted) for each in found.values())
    # Everybody reads them, and nobody else writes to them.
    assert set(offsets_in(hosts).values()) == {b"7"}
    make(tmp_path / "data", 8)
    code, out, err = call(capsys, *arguments)
    assert (code, out.splitlines()[1:]) == (1, [])
    assert "3 positions refused" in err
    assert "the ACL of /consumers/g/offsets/t/0 does not permit this operation" in err
    assert set(offsets_in(hosts).values()) == {b"7"}
    code, out, err = call(capsys, *arguments, "--to-auth-file", auth_file)
    assert (code, out.splitlines()[-1], err) == (0, "3 positions moved forward", "")
    assert acls_in(hosts) == found


def test_source_and_target_have_credentials_of_their_own(hosts, tmp_path, capsys, auth_file):
    fill(hosts, OFFSETS)
    close_to_others(hosts)
    client = client_of(hosts)
    client.create("/other", acl=[make_digest_acl("target", "x", all=True)])
    client.stop()
    client.close()
    (tmp_path / "target").mkdir()
    other = credentials(tmp_path / "target", "digest:target:x")
    ensemble = f"zookeeper://{hosts}"
    arguments = ["--from", ensemble, "--to", f"{ensemble}/other", "--from-auth-file"]
    code, _, err = call(capsys, *arguments, other, "--to-auth-file", auth_file)
    assert code in (1, 2)
    assert "does not permit this operation to this connection" in err
    code, out, _ = call(capsys, *arguments, auth_file, "--to-auth-file", other)
    assert (code, out.splitlines()[-1]) == (0, "3 positions added")


def test_a_file_that_gives_its_credentials_once_is_read_once(hosts, tmp_path, capsys):
    fill(hosts, OFFSETS)
    close_to_others(hosts)
    # As a shell's <(...), which is empty for whoever opens it again.
    reading, writing = os.pipe()
    os.write(writing, f"digest:kafka:{SECRET}\n".encode())
    os.close(writing)
    try:
        arguments = ["--from", f"zookeeper://{hosts}", "--to", tmp_path / "data", "--partitions", 1]
        code, out, err = call(capsys, *arguments, "--from-auth-file", f"/dev/fd/{reading}")
    finally:
        os.close(reading)
    assert (code, out.splitlines()[-1]) == (0, "3 positions added"), err


def test_credentials_are_in_no_text_of_the_options(auth_file):
    typed = PlaceOptions(source_auth=auth_file, target_auth=auth_file)
    options = checked_access(Ensemble("h:1"), Ensemble("h:1/other"), typed)
    assert options.source_credentials == options.target_credentials == (("digest", f"kafka:{SECRET}"),)
    assert SECRET not in repr(options)


def test_nodes_are_everybodys_without_an_acl(hosts, tmp_path, capsys):
    make(tmp_path / "data", 7)
    assert call(capsys, "--from", tmp_path / "data", "--to", f"zookeeper://{hosts}")[0] == 0
    assert all(each == [make_acl("world", "anyone", all=True)] for each in acls_in(hosts).values())


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        ("digest:kafka:pass:word\n", 0o640, "auth holds credentials, but other users may access it.*chmod 600"),
        ("digest:kafka:pass:word\n", 0o602, "other users may access it"),
        ("# nothing\n\n", 0o600, "auth holds no credentials"),
        ("digest\n", 0o600, "line 1 of .*auth must have the form SCHEME:CREDENTIAL"),
        ("#\npass:word\n:pass:word", 0o600, "line 3 of .*auth must have the form SCHEME:CREDENTIAL"),
        ("digest:pass\n", 0o600, "line 1 of .*auth has no password"),
        ("digest:k:\n", 0o600, "line 1 of .*auth has no password"),
        ("x" * 70_000, 0o600, "more than 65536 bytes"),
    ],
)
def test_files_of_credentials_that_are_refused(tmp_path, capsys, text, mode, message):
    make(tmp_path / "data", 7)
    path = credentials(tmp_path, text, mode)
    code, _, err = call(capsys, "--from", tmp_path / "data", "--to", "zookeeper://127.0.0.1:1", "--to-auth-file", path)
    assert code == 2
    assert re.search(message, err)


@pytest.mark.parametrize(
    ("acl", "message"),
    [
        ("world:anyone", "is not an ACL entry"),
        ("world:anyone:rx", "is not an ACL entry"),
        ("world:anyone:rr", "is not an ACL entry"),
        ("world:anyone:", "is not an ACL entry"),
        ("digest:a\udc80:r", "is not UTF-8"),
        ("digest::cdrwa", "has no identity"),
        ("auth::cdrwa", "stands for the credentials in --to-auth-file; give that option, too"),
    ],
)
def test_acls_that_are_refused(tmp_path, capsys, acl, message):
    make(tmp_path / "data", 7)
    code, _, err = call(capsys, "--from", tmp_path / "data", "--to", "zookeeper://127.0.0.1:1", "--acl", acl)
    assert (code, message in err) == (2, True)


def test_options_for_zookeeper_beside_a_directory(tmp_path, capsys, auth_file):
    make(tmp_path / "data", 7)
    places = ["--from", tmp_path / "data", "--to", tmp_path / "more"]
    for option, value, message in [
        ("--from-auth-file", auth_file, "--from-auth-file is for ZooKeeper, but --from is the directory"),
        ("--to-auth-file", auth_file, "--to-auth-file is for ZooKeeper, but --to is the directory"),
        ("--acl", "world:anyone:r", "--acl is for the nodes of ZooKeeper, but --to is the directory"),
    ]:
        code, _, err = call(capsys, *places, option, value)
        assert (code, message in err) == (2, True)
    code, _, err = call(capsys, "--from", "zookeeper://127.0.0.1:1", "--to", tmp_path, "--from-auth-file", "none")
    assert (code, "cannot read the credentials in none: No such file or directory" in err) == (2, True)
    assert not (tmp_path / "more").exists()
