"""Many threads make all calls at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

from offsetlog.errors import ClosedError, NotCoordinatorError
from offsetlog.manager.testing.serving import wait_until
from offsetlog.manager.testing.site import GROUP, KEYS, ManagerSite
from offsetlog.types import OffsetAndMetadata

THREADS = 6


def run_side_by_side(works: Sequence[Callable[[], object]], patience: float) -> None:
    """Runs each call on its own thread; raises the first error."""
    failures: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience)
    if failures:
        raise failures[0]
    assert not any(thread.is_alive() for thread in threads)


class TestThreads:
    """Calls from many threads do not disturb each other."""

    def test_groups_of_many_threads(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()

        def commit(number: int) -> None:
            group = f"group-{number}"
            for offset in range(60):
                manager.commit(group, {KEYS[0]: offset, KEYS[1]: offset}, durability="process")
                found = manager.fetch(group)
                assert [value.offset for value in found.values()] == [offset, offset]
                manager.delete(group, [KEYS[1]])
                assert list(manager.fetch(group)) == [KEYS[0]]

        works = [partial(commit, number) for number in range(THREADS)]
        run_side_by_side(works, manager_site.harness.patience)
        manager = manager_site.restarted()
        for number in range(THREADS):
            found = manager.fetch(f"group-{number}")
            assert {key: value.offset for key, value in found.items()} == {KEYS[0]: 59}

    def test_a_fetch_never_sees_half_a_commit(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        manager.commit(GROUP, dict.fromkeys(KEYS, 0))
        done = threading.Event()

        def write() -> None:
            try:
                for offset in range(1, 200):
                    manager.commit(GROUP, dict.fromkeys(KEYS, offset), durability="process")
            finally:
                done.set()

        def read() -> None:
            last = 0
            while not done.is_set():
                found = {value.offset for value in manager.fetch(GROUP).values()}
                assert len(found) == 1
                assert min(found) >= last
                last = min(found)

        run_side_by_side([write, read, read], manager_site.harness.patience)
        assert {value.offset for value in manager.fetch(GROUP).values()} == {199}

    def test_every_call_at_once(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        partition = manager.partition_for(GROUP)
        patience = manager_site.harness.patience

        def commit(key: int) -> None:
            for offset in range(40):
                manager.commit(GROUP, {KEYS[key]: offset}, durability="process")
                manager.commit_async(GROUP, {KEYS[key]: OffsetAndMetadata(offset)}).result(patience)

        def ask() -> None:
            for _ in range(40):
                manager.fetch(GROUP)
                manager.state(partition)
                manager.leader_epoch(partition)
                manager.positions(partition)
                manager.throttle(GROUP, "client")
                manager.partition_for(GROUP)
                manager.end_offset_for_epoch(partition, 5)

        def tidy() -> None:
            for _ in range(20):
                manager.flush(partition).result(patience)
                manager.expire()
                manager.on_topic_deleted(["nothing"])
                manager.delete("another", KEYS)
                manager.delete_group("another")

        run_side_by_side([*(partial(commit, key) for key in range(4)), ask, tidy], patience)
        found = manager.fetch(GROUP)
        assert {key: value.offset for key, value in found.items()} == dict.fromkeys(KEYS, 39)

    def test_a_stop_while_others_call(self, manager_site: ManagerSite) -> None:
        manager = manager_site.leader()
        answered: dict[str, int] = {}
        begun = threading.Barrier(THREADS + 1)

        def commit(number: int) -> None:
            group = f"group-{number}"
            begun.wait(manager_site.harness.patience)
            try:
                for offset in range(100_000):
                    manager.commit(group, {KEYS[0]: offset}, durability="process")
                    answered[group] = offset
            except (ClosedError, NotCoordinatorError):
                pass

        def stop() -> None:
            begun.wait(manager_site.harness.patience)
            wait_until(lambda: len(answered) == THREADS, manager_site.harness.patience)
            manager_site.stop()

        works = [partial(commit, number) for number in range(THREADS)]
        run_side_by_side([*works, stop], manager_site.harness.patience)
        manager = manager_site.leader()
        for group, offset in answered.items():
            # The last commit may have been written but not answered.
            assert manager.fetch(group)[KEYS[0]].offset - offset in (0, 1)
