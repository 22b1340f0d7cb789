"""The properties of a directory, in two files: `offsetlog.properties` and the record of checkpoints."""

from __future__ import annotations

import uuid

import pytest

import offsetlog
from offsetlog import errors
from offsetlog.verify import verify

from .conftest import tree


@pytest.mark.parametrize("content", [None, b"", b"format=1\n", b"format=1\npartitions=7\ncheck=0123456789abcdef\n"])
def test_a_lost_properties_file_has_a_second_copy(path, content):
    properties = path / "offsetlog.properties"
    with offsetlog.open(path, partitions=5, topic_id=uuid.uuid4()) as store:
        store.commit_one("g", "t", 0, 1)
    right = properties.read_bytes()
    for times in range(2):
        properties.unlink() if content is None else properties.write_bytes(content)
        kinds = {finding.kind for finding in verify(path).problems}
        assert kinds == {"properties"}
        before = tree(path)
        with pytest.warns(errors.CorruptionWarning), offsetlog.open(path, read_only=True) as store:
            assert (store.partitions, store.fetch_one("g", "t", 0).offset) == (5, 1 + times)
        assert tree(path) == before
        with pytest.warns(errors.CorruptionWarning):
            store = offsetlog.open(path)
        with store:
            assert [each.path for each in store.problems()] == [str(properties)]
            assert store.partitions == 5
            store.commit_one("g", "t", 0, 2 + times)
        assert properties.read_bytes() == right
        copy = path / f"offsetlog.properties.damaged{f'.{times}' if times else ''}"
        assert (copy.read_bytes() if copy.exists() else None) == content
        assert verify(path).problems == []
        with offsetlog.open(path) as store:
            assert store.problems() == []


def test_properties_of_a_later_version_are_refused_whatever_the_second_copy_says(path):
    with offsetlog.open(path) as store:
        store.commit_one("g", "t", 0, 1)
    (path / "offsetlog.properties").write_bytes(b"format=2\npartitions=5\n")
    before = tree(path)
    for options in ({}, {"read_only": True}):
        with pytest.raises(errors.UnsupportedVersionError):
            offsetlog.open(path, **options)
    assert tree(path) == before
