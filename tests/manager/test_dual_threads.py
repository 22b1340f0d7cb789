"""Consumers on threads of their own beside a ZooKeeper that is slow, loses answers and goes away."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from offsetlog import errors
from offsetlog.manager.dual.manager import DualManager
from tests.depth import by_depth, first_seed

from .dual_storages import GROUP, KEYS, Site, ZooKeeper


@contextmanager
def answering(zookeeper: ZooKeeper, rng: random.Random):
    """Answers the commits that come, in their order: some get lost, and now and then none is made."""
    is_over = threading.Event()

    def answer() -> None:
        while not is_over.is_set():
            with zookeeper.came:
                zookeeper.came.wait_for(lambda: zookeeper.held or is_over.is_set())
            zookeeper.is_away = rng.random() < 0.1
            zookeeper.loses, zookeeper.makes = int(rng.random() < 0.2), rng.random() < 0.5
            zookeeper.answer(1)

    zookeeper.is_held = True
    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        with zookeeper.came:
            zookeeper.came.notify_all()
        thread.join()
        zookeeper.is_away, zookeeper.loses, zookeeper.is_held = False, 0, False
        zookeeper.answer()


class Consumer:
    """Commits one position forward and back, and deletes it; knows what it must be."""

    def __init__(self, site: Site, manager: DualManager, number: int, seed: int) -> None:
        self.site, self.manager, self.key, self.rng = site, manager, KEYS[number], random.Random(seed + number)
        self.offset: int | None = None
        self.made = {"commit": 0, "back": 0, "delete": 0}

    def __call__(self, count: int) -> None:
        for step in range(1, count + 1):
            kind = self.rng.choices(list(self.made), [8, 2, 1])[0]
            wanted = {"commit": step * 10, "back": self.rng.randrange(step * 10), "delete": None}[kind]
            before = self.stored()
            try:
                if wanted is None:
                    self.manager.delete(GROUP, [self.key])
                else:
                    self.manager.commit(GROUP, {self.key: wanted})
            except errors.OffsetLogError as failure:
                assert failure.retriable, failure  # noqa: PT017
                wanted = before
            else:
                self.made[kind] += 1
            assert self.stored() == wanted, (self.key, step, kind)
            self.offset = wanted
            self.site.pass_time()

    def stored(self) -> int | None:
        """Returns the larger of both, as a fetch would."""
        found = [each[self.key] for each in self.site.stored() if self.key in each]
        return max(found, default=None)


def test_each_consumer_finds_what_it_committed():
    seed = first_seed(random.randrange(2**32))
    print(f"seed {seed}")
    site = Site()
    with site.start() as manager:
        assert manager.fetch(GROUP, KEYS)[KEYS[0]].offset == -1
        consumers = [Consumer(site, manager, number, seed) for number in range(len(KEYS))]
        with answering(manager.zookeeper, random.Random(seed)), ThreadPoolExecutor(len(KEYS)) as threads:
            for each in [threads.submit(consumer, by_depth(gate=150, long=3000)) for consumer in consumers]:
                each.result()
        while site.timers:
            site.pass_time()
        # No commit follows some differences; they are brought to ZooKeeper by hand.
        assert manager.catch_up_all().is_equal
        wanted = {each.key: each.offset for each in consumers if each.offset is not None}
        assert site.stored() == (wanted, wanted)
        assert all(each.made["commit"] and each.made["back"] for each in consumers)
