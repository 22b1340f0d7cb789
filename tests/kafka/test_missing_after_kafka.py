"""Faults to a directory that ours wrote and a Kafka broker worked on: nothing is lost in silence above its cleaner.

Below the broker's cleaner checkpoint a segment that is gone looks like one that was cleaned away; how often that
happens is printed (docs/verify.md).  The directory itself, unharmed, is reported in no word, however often ours and
Kafka take turns.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from broker import KafkaBroker, Template, copy_template
from cleaning import IDLE, checkpoint_of, cleans_in
from depth import by_depth
from faults.file_faults import harm_some
from faults.verdict import Content, content_of, judge
from kafka_answers import CommittedOffset, KafkaAnswers
from kafka_packages import DEADLINE_SECONDS
from test_cleaner import EAGERLY, let_kafka_clean, open_store
from test_round_trip import seed_or

from offsetlog import OffsetStore, TopicPartition
from offsetlog.verify import verify

PARTITIONS = 2
GROUPS = tuple(f"g{number}" for number in range(5))
WITHOUT_CLEANING = {name.replace(".", "_"): value for name, value in IDLE.items()} | {"log_roll_ms": "20"}


def commit_by_us(store: OffsetStore, first: int) -> None:
    """Commits one position at a time, and some in transactions, over several segments."""
    for number in range(first, first + 400):
        store.commit_one(GROUPS[number % 5], "t", number % 70, number)
        if number % 40 == 0:
            with store.transaction(GROUPS[1], 900) as transaction:
                transaction.commit({TopicPartition("t", number % 70): number})


def commit_by_kafka(ask: KafkaAnswers, first: int, times: int) -> None:
    """Commits for all groups, a few positions each, in one segment after another."""
    for number in range(first, first + times):
        ask.commit(
            CommittedOffset(group, "t", (7 * number + place) % 70, number, -1, "")
            for group in GROUPS
            for place in range(3)
        )


def wait_until_recorded(broker: KafkaBroker) -> None:
    """Waits until the cleaner's checkpoint has what the cleaner says in its log that it did."""
    done = {clean.partition: clean.end for clean in cleans_in(broker.log_text())}
    end = time.monotonic() + DEADLINE_SECONDS
    while not done.items() <= checkpoint_of(broker.log_dir).items():
        assert time.monotonic() < end, f"the checkpoint does not say {done}"
        time.sleep(0.05)


class Turns:
    """A directory on which ours and a broker work in turns; no turn of ours finds anything to report."""

    def __init__(self, log_dir: Path, template: Template, draw: random.Random, kafka_broker, kafka_answers) -> None:
        self.log_dir = log_dir
        self._template, self._draw = template, draw
        self._broker, self._answers = kafka_broker, kafka_answers
        self._offset = 1_000

    def ours(self, *, cleans: bool = False) -> Content:
        """Lets ours commit, and returns what it holds then."""
        with open_store(self.log_dir, self._template, self._draw) as store:
            assert store.problems() == []
            commit_by_us(store, self._next())
            if cleans:
                store.compact()
            return content_of(store)

    def kafka(self, *, cleans: bool, is_killed: bool = False) -> None:
        """Lets a broker commit, and clean on request; it is stopped in order, or killed."""
        broker = self._broker(self.log_dir, **(EAGERLY if cleans else WITHOUT_CLEANING))
        broker.start().wait_until_loaded(PARTITIONS)
        ask = self._answers(broker)
        ask.create_topics({"t": 70})
        if cleans:
            let_kafka_clean(broker, ask, range(PARTITIONS), self._next())
        else:
            commit_by_kafka(ask, self._next(), 6)
        if is_killed:
            # Its cleaner's checkpoint comes after the log line that says it is done; in between a doubt would be right.
            wait_until_recorded(broker)
            broker.kill()
        else:
            broker.stop()

    def found(self) -> Content:
        """Returns what a copy holds, which must be sound in every way."""
        copy = self.log_dir.with_name("unharmed")
        shutil.copytree(self.log_dir, copy)
        for _ in range(2):
            with open_store(copy, self._template, self._draw) as store:
                assert store.problems() == []
                assert (store.health().partitions, store.health().directory) == ((), ())
                content = content_of(store)
        assert verify(copy).problems == []
        shutil.rmtree(copy)
        return content

    def _next(self) -> int:
        self._offset += 1_000
        return self._offset


@pytest.mark.parametrize("after_cleaning", [True, pytest.param(False, marks=pytest.mark.long)])
def test_nothing_is_lost_in_silence(after_cleaning, kafka_template, kafka_broker, kafka_answers, tmp_path):
    """A broker commits over segments of its own, after its cleaner went over all that is older, or without."""
    seed, rounds = seed_or(44_101), by_depth(gate=150, long=2500)
    template = kafka_template(PARTITIONS)
    built = copy_template(template, tmp_path / "log")
    turns = Turns(built, template, random.Random(seed), kafka_broker, kafka_answers)
    turns.ours(cleans=True)
    turns.ours()
    if after_cleaning:
        turns.kafka(cleans=True)
    turns.kafka(cleans=False)
    truth, cleaned = turns.found(), checkpoint_of(built) if after_cleaning else {}
    above = sum(log_offset >= cleaned.get(number, 0) for _, number, log_offset in truth.values())
    print(f"{len(truth)} positions, {above} of them above the cleaner's checkpoint {cleaned}")
    assert above > 50
    assert (above < len(truth)) == after_cleaning

    tally: Counter[str] = Counter()
    failures = []
    for number in range(rounds):
        harmed = Path(shutil.copytree(built, tmp_path / "harmed"))
        done = harm_some(harmed, 1, random.Random(f"{seed} {number}"))
        became = judge(harmed, truth, done, cleaned)
        tally[became.partition(":")[0]] += 1
        if became[:2].isupper():
            failures.append(f"seed {seed}, number {number}, {done}: {became}")
        shutil.rmtree(harmed)
    print(f"seed {seed}: {dict(tally)}")
    assert not failures, "\n".join(failures[:20])
    assert tally["lost, reported"] > rounds // 10


def test_turns_accuse_nobody(kafka_template, kafka_broker, kafka_answers, tmp_path):
    """Ours, Kafka, ours, Kafka: cleaned by the one or the other, stopped in order or killed."""
    draw = random.Random(seed_or(44_102))
    template = kafka_template(PARTITIONS)
    turns = Turns(copy_template(template, tmp_path / "log"), template, draw, kafka_broker, kafka_answers)
    for cleans, is_killed in ((False, False), (True, False), (False, True), (True, True)):
        turns.ours(cleans=draw.random() < 0.5)
        turns.kafka(cleans=cleans, is_killed=is_killed)
        turns.found()
    turns.ours()
    turns.found()
