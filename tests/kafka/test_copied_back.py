"""A partition that was restored in a copy without the other topics goes back to its broker.

docs/how-to/offsets-were-reset.md describes these steps.
"""

from __future__ import annotations

import shutil

from broker import CLEAN_MARKER, OFFSETS_TOPIC, copy_template
from commit_stream import TOPICS
from kafka_answers import CommittedOffset
from test_round_trip import PARTITIONS, assert_no_faults, assert_sound, start

import offsetlog
from offsetlog._native.codec import partition_for


def _rows(group: str, offsets: list[int], note: str) -> list[CommittedOffset]:
    return [CommittedOffset(group, "orders", partition, offset, 0, note) for partition, offset in enumerate(offsets)]


def test_a_partition_restored_in_a_copy(kafka_template, kafka_broker, kafka_answers, kafka_packages, tmp_path):
    log_dir, desk = copy_template(kafka_template(PARTITIONS), tmp_path / "log"), tmp_path / "desk"
    groups = ["billing", *(f"group {number}" for number in range(20))]
    before = {group: _rows(group, [1280 + number, 1281, 1282], "before") for number, group in enumerate(groups)}
    broker = kafka_broker(log_dir)
    start(broker)
    ask = kafka_answers(broker)
    ask.create_topics(TOPICS)
    ask.commit([row for rows in before.values() for row in rows])
    ask.commit(_rows("billing", [0, 0, 0], ""))
    assert {row.offset for row in ask.offsets() if row.group == "billing"} == {0}
    broker.stop()
    assert (log_dir / CLEAN_MARKER).exists()

    # The copy of the how-to page: this topic's partitions and the small files, not the data of the other topics.
    desk.mkdir()
    for path in log_dir.iterdir():
        if path.is_file():
            shutil.copy2(path, desk)
        elif path.name.startswith(OFFSETS_TOPIC):
            shutil.copytree(path, desk / path.name)
    assert any(path.is_dir() and not (desk / path.name).exists() for path in log_dir.iterdir())
    with offsetlog.open(desk, PARTITIONS) as store:
        (bad,) = {rewind.restore_at for rewind in store.rewinds(group="billing")}
        assert len(store.restore("billing", bad)) == 3

    folder = f"{OFFSETS_TOPIC}-{partition_for('billing', PARTITIONS)}"
    shutil.rmtree(log_dir / folder)
    shutil.copytree(desk / folder, log_dir / folder)
    assert_sound(log_dir)
    start(broker)
    ask = kafka_answers(broker)
    expected = sorted(row for rows in before.values() for row in rows)
    assert ask.offsets() == expected
    ask.commit(_rows("billing", [2000, 2001, 2002], "after"))
    broker.stop()
    assert_no_faults(kafka_packages, log_dir)
    assert_sound(log_dir)
    with offsetlog.open(log_dir, PARTITIONS, read_only=True) as store:
        assert [value.offset for value in store.fetch("billing").values()] == [2000, 2001, 2002]
