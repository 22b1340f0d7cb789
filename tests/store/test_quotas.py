"""Quotas by group and client: token buckets, their memory, and a comparison with an exact model of them."""

from __future__ import annotations

import math
import random
import threading
import time
from fractions import Fraction

import pytest
from depth import by_depth, first_seed

from offsetlog._native.quotas import Bucket, Buckets, Quotas
from offsetlog.errors import ArgumentTypeError, ConfigError, InvalidArgumentError

from .quota_reference import Model

SECOND = 1_000_000_000
WAIT_MAX = 2**61 / SECOND
INF = math.inf


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 5 * SECOND
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        return self.now

    def move(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def balances(quotas: Quotas, kind: str = "group") -> dict[str, tuple[float, float]]:
    return {name: (commits, nbytes) for each, name, commits, nbytes in quotas.usage() if each == kind}


# ------------------------------------------------------------------------------------------------------------ admission


def test_a_group_commits_at_its_rate_once_its_burst_is_used(clock):
    quotas = Quotas(group_commits_per_second=4, clock=clock)
    # Four tokens, and the commit that finds none left but owes nothing either.
    assert [quotas.charge("g", None, 1, 0) for _ in range(6)] == [0, 0, 0, 0, 0, 0.25]
    admitted = 0
    for _ in range(1000):
        clock.move(1 / 64)
        admitted += quotas.charge("g", None, 1, 0) == 0
    assert admitted == 1000 * 4 // 64


def test_bytes_are_limited_beside_commits(clock):
    quotas = Quotas(group_commits_per_second=100, group_bytes_per_second=1024, clock=clock)
    assert quotas.charge("g", None, 1, 2048) == 0
    assert quotas.charge("g", None, 1, 1) == 1.0
    assert balances(quotas) == {"g": (99.0, -1024.0)}
    clock.move(1)
    assert quotas.charge("g", None, 1, 1) == 0


def test_a_bucket_holds_the_burst_and_no_more(clock):
    quotas = Quotas(client_commits_per_second=2, burst_seconds=8, clock=clock)
    quotas.charge(None, "c", 10, 0)
    assert balances(quotas, "client") == {"c": (6.0, INF)}
    clock.move(4)
    assert balances(quotas, "client") == {"c": (14.0, INF)}
    clock.move(1000)
    assert balances(quotas, "client") == {"c": (16.0, INF)}


def test_a_commit_larger_than_the_burst_is_admitted_and_its_debt_is_paid(clock):
    quotas = Quotas(group_bytes_per_second=1000, clock=clock)
    assert quotas.charge("g", None, 1, 1_000_000) == 0
    assert quotas.throttle("g", None) == quotas.charge("g", None, 1, 1) == 999.0
    clock.move(998)
    assert quotas.charge("g", None, 1, 1) == 1.0
    clock.move(1)
    assert quotas.charge("g", None, 1, 1_000_000) == 0
    assert quotas.throttle("g", None) == 1000.0


def test_a_rate_below_one_a_second_admits_a_commit_at_a_time(clock):
    quotas = Quotas(group_commits_per_second=0.125, clock=clock)
    assert quotas.charge("g", None, 1, 0) == 0
    assert quotas.charge("g", None, 1, 0) == 7.0
    for _ in range(5):
        clock.move(8)
        assert quotas.charge("g", None, 1, 0) == 0
        assert quotas.charge("g", None, 1, 0) == 7.0


def test_what_costs_nothing_waits_for_a_debt_too(clock):
    quotas = Quotas(group_commits_per_second=1, clock=clock)
    assert quotas.charge("g", None, 0, 0) == 0
    assert quotas.charge("g", None, 3, 0) == 0
    assert quotas.charge("g", None, 0, 0) == 2.0


@pytest.mark.parametrize("indebted", ["group", "client"])
def test_all_buckets_are_charged_or_none(clock, indebted):
    quotas = Quotas(
        group_commits_per_second=10,
        group_bytes_per_second=1000,
        client_commits_per_second=10,
        client_bytes_per_second=1000,
        clock=clock,
    )
    debtor = ("g", None) if indebted == "group" else (None, "c")
    assert quotas.charge("g", "c", 1, 100) == 0
    assert quotas.charge(*debtor, 12, 0) == 0
    before = quotas.usage()
    assert before == [
        ("group", "g", -3.0 if indebted == "group" else 9.0, 900.0),
        ("client", "c", -3.0 if indebted == "client" else 9.0, 900.0),
    ]
    assert quotas.charge("g", "c", 1, 100) == pytest.approx(0.3)
    assert quotas.usage() == before
    # A refused commit makes no bucket for the other name either.
    other = ("g", "new") if indebted == "group" else ("new", "c")
    assert quotas.charge(*other, 1, 100) > 0
    assert quotas.usage() == before


def test_the_longest_wait_of_all_buckets_counts(clock):
    quotas = Quotas(
        group_commits_per_second=1,
        group_bytes_per_second=100,
        client_commits_per_second=2,
        client_bytes_per_second=50,
        clock=clock,
    )
    quotas.charge("g", None, 3, 500)
    assert quotas.throttle("g", "c") == 4.0
    quotas.charge(None, "c", 3, 500)
    assert quotas.throttle("g", "c") == 9.0
    assert quotas.throttle("g", None) == 4.0
    assert quotas.throttle(None, "c") == 9.0


def test_a_debt_delays_nobody_else(clock):
    quotas = Quotas(group_commits_per_second=1, client_commits_per_second=1000, clock=clock)
    assert quotas.charge("debtor", "c", 500, 0) == 0
    assert quotas.charge("debtor", "c", 1, 0) == 499.0
    assert quotas.charge("other", "c", 1, 0) == 0
    assert quotas.throttle("third", "c") == 0
    # A group and a client of one name are two.
    assert quotas.charge("c", "debtor", 1, 0) == 0


def test_throttle_changes_nothing(clock):
    quotas = Quotas(group_commits_per_second=1, client_commits_per_second=1, clock=clock)
    assert quotas.throttle("g", "c") == 0
    assert quotas.usage() == []
    quotas.charge("g", "c", 4, 0)
    before = quotas.usage()
    assert [quotas.throttle("g", "c") for _ in range(3)] == [3.0] * 3
    assert quotas.usage() == before


def test_without_limits_nothing_is_kept(clock):
    quotas = Quotas(clock=clock)
    assert [quotas.charge("g", "c", 2**63 - 1, 2**63 - 1) for _ in range(3)] == [0, 0, 0]
    assert quotas.throttle("g", "c") == 0
    assert (quotas.usage(), quotas.untracked) == ([], 0)
    only_clients = Quotas(client_commits_per_second=1, clock=clock)
    only_clients.charge("g", "c", 1, 0)
    only_clients.charge("g", None, 1, 0)
    assert only_clients.usage() == [("client", "c", 0.0, INF)]


# ------------------------------------------------------------------------------------------------------------ overrides


def test_an_override_replaces_the_limits_of_one_name(clock):
    quotas = Quotas(group_commits_per_second=1, client_commits_per_second=1, clock=clock)
    quotas.set_group("fast", 1000, None)
    quotas.set_client("free", None, None)
    assert [quotas.charge("fast", "free", 500, 10**9) for _ in range(4)] == [0, 0, 0, 0.5]
    assert quotas.charge("slow", "free", 5, 0) == 0
    assert quotas.charge("slow", "free", 1, 0) == 4.0
    assert quotas.usage()[-1] == ("client", "free", INF, INF)


def test_an_override_limits_where_nothing_else_does(clock):
    quotas = Quotas(clock=clock)
    quotas.set_client("c", None, 100)
    assert quotas.charge("g", "c", 1, 300) == 0
    assert quotas.charge("g", "c", 1, 0) == 2.0
    assert quotas.charge("g", "other", 1, 10**12) == 0
    quotas.remove_client("c")
    assert quotas.charge("g", "c", 1, 10**12) == 0
    assert quotas.usage() == []


def test_a_debt_outlives_an_override_and_its_end(clock):
    quotas = Quotas(group_commits_per_second=2, clock=clock)
    quotas.charge("g", None, 12, 0)
    assert quotas.throttle("g", None) == 5.0
    quotas.set_group("g", 10, None)
    assert quotas.throttle("g", None) == 1.0
    quotas.set_group("g", 10, None)
    assert quotas.throttle("g", None) == 1.0
    quotas.remove_group("g")
    assert quotas.throttle("g", None) == 5.0
    quotas.remove_group("g")
    assert quotas.throttle("g", None) == 5.0
    clock.move(5.5)
    assert balances(quotas) == {"g": (1.0, INF)}


def test_a_new_limit_keeps_tokens_up_to_its_burst(clock):
    quotas = Quotas(group_commits_per_second=100, clock=clock)
    quotas.charge("full", None, 0, 0)
    quotas.charge("half", None, 50, 0)
    for name in ("full", "half"):
        quotas.set_group(name, 200, 7)
    assert balances(quotas) == {"full": (200.0, 7.0), "half": (50.0, 7.0)}
    for name in ("full", "half"):
        quotas.set_group(name, 20, None)
    assert balances(quotas) == {"full": (20.0, INF), "half": (20.0, INF)}


def test_the_end_of_an_override_without_a_debt_leaves_nothing(clock):
    quotas = Quotas(group_commits_per_second=2, clock=clock)
    quotas.set_group("g", 10, None)
    quotas.remove_group("g")
    quotas.remove_group("never seen")
    assert quotas.usage() == []


# --------------------------------------------------------------------------------------------------------------- memory


def test_a_flood_of_new_names_is_bounded_and_loses_nothing_while_buckets_are_full(clock):
    quotas = Quotas(group_commits_per_second=10, client_commits_per_second=10, max_entities=50, clock=clock)
    for number in range(2000):
        assert quotas.charge(f"g{number}", f"c{number}", 1, 0) == 0
        # 50 charges take five seconds, and each is paid after 0.1.
        clock.move(0.1)
    assert len(balances(quotas)) == len(balances(quotas, "client")) == 50
    assert quotas.untracked == 0


def test_a_flood_of_new_names_clears_no_debt_and_delays_nobody(clock):
    quotas = Quotas(group_commits_per_second=1, max_entities=100, clock=clock)
    assert quotas.charge("debtor", None, 1_000_000, 0) == 0
    for number in range(99):
        assert quotas.charge(f"used{number}", None, 2, 0) == 0
    for number in range(20_000):
        assert quotas.charge(f"flood{number}", None, 10, 0) == 0
    # Nobody has a full bucket: all 100 are kept, and none of the flood has one.
    assert quotas.untracked == 20_000
    assert balances(quotas) == {"debtor": (-999_999.0, INF)} | {f"used{number}": (-1.0, INF) for number in range(99)}
    assert quotas.charge("debtor", None, 1, 0) == 999_999.0
    assert quotas.charge("used7", None, 1, 0) == 1.0
    # Once the others have paid, a flood gets their places, and not the debtor's.
    clock.move(2)
    for number in range(20_000):
        assert quotas.charge(f"later{number}", None, 10, 0) == 0
    assert len(balances(quotas)) == 100
    assert sum(name.startswith("later") for name in balances(quotas)) == 99
    assert quotas.throttle("debtor", None) == 999_997.0


def test_a_new_name_gets_the_place_of_a_full_bucket_though_only_one_is_full(clock):
    quotas = Quotas(group_commits_per_second=1, max_entities=1000, clock=clock)
    for number in range(1000):
        quotas.charge(f"g{number}", None, 0 if number == 990 else 1, 0)
    # A new name inspects 16 buckets, the next one the next 16.
    tries = 0
    while quotas.untracked == tries:
        tries += 1
        quotas.charge("new", None, 1, 0)
    assert tries == 990 // 16 + 1
    names = balances(quotas)
    assert len(names) == 1000
    assert "new" in names
    assert "g990" not in names


def test_overrides_take_no_place(clock):
    quotas = Quotas(group_commits_per_second=1, max_entities=3, clock=clock)
    for number in range(20):
        quotas.set_group(f"override{number}", 2, None)
        quotas.charge(f"override{number}", None, 2, 0)
    for number in range(3):
        quotas.charge(f"g{number}", None, 2, 0)
    assert (len(balances(quotas)), quotas.untracked) == (23, 0)
    # An override frees the place of its name; at its end it takes that of a full bucket.
    quotas.set_group("g0", 5, None)
    quotas.charge("g3", None, 2, 0)
    assert quotas.untracked == 0
    quotas.charge("g4", None, 2, 0)
    assert quotas.untracked == 1
    clock.move(10)
    quotas.charge("g0", None, 50, 0)
    quotas.remove_group("g0")
    assert len(balances(quotas)) == 23
    assert quotas.throttle("g0", None) == 45.0


def test_the_end_of_an_override_keeps_its_debt_where_no_place_is_left(clock):
    quotas = Quotas(group_commits_per_second=1, max_entities=2, clock=clock)
    quotas.set_group("g", 5, None)
    for name in ("g", "a", "b"):
        quotas.charge(name, None, 10, 0)
    quotas.remove_group("g")
    assert balances(quotas) == {"g": (-5.0, INF), "a": (-9.0, INF), "b": (-9.0, INF)}
    clock.move(20)
    for name in ("c", "d", "e", "f"):
        quotas.charge(name, None, 10, 0)
    assert len(balances(quotas)) == 3


def test_places_are_right_after_many_overrides(clock):
    seed = first_seed()
    print(f"seed {seed}")
    rng = random.Random(seed)
    quotas = Quotas(group_commits_per_second=1, max_entities=8, clock=clock)
    debts: dict[str, int] = {}
    for _ in range(3000):
        name = f"g{rng.randrange(40)}"
        action = rng.choice(["charge", "set", "remove"])
        if action == "set":
            quotas.set_group(name, 1, None)
        elif action == "remove":
            quotas.remove_group(name)
        else:
            before = quotas.untracked
            waits = quotas.charge(name, None, 3, 0)
            assert (waits > 0) == (debts.get(name, 0) > clock.now)
            if waits == 0 and quotas.untracked == before:
                # One of the three was free at most: the debt is 2, and full means one more.
                debts[name] = max(debts.get(name, 0), clock.now - SECOND) + 3 * SECOND
        clock.move(rng.choice([0, 0, 0.5, 1]))
        listed = balances(quotas)
        for debtor, until in debts.items():
            if until > clock.now:
                assert listed[debtor][0] == (clock.now - until) / SECOND


def test_long_names_take_little_memory_and_stay_apart(clock):
    quotas = Quotas(group_commits_per_second=1, clock=clock)
    long = "x" * 30_000
    names = [long, long + "y", "\ud800" * 300, "x" * 257, "x" * 256]
    for debt, name in enumerate(names, 1):
        assert quotas.charge(name, None, debt + 1, 0) == 0
    assert [quotas.throttle("".join(name), None) for name in names] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert max(len(name) for name in balances(quotas)) == 256
    quotas.set_group(long, None, None)
    assert quotas.throttle(long, None) == 0
    quotas.remove_group(long)
    assert len(balances(quotas)) == 4


def test_a_subclass_of_str_runs_no_code(clock):
    class Name(str):
        __slots__ = ()

        def __hash__(self) -> int:
            raise AssertionError("hash")

        def __eq__(self, other: object) -> bool:
            raise AssertionError("eq")

    quotas = Quotas(group_commits_per_second=1, client_commits_per_second=1, clock=clock)
    assert quotas.charge(Name("g"), Name("c"), 3, 0) == 0
    assert quotas.throttle("g", None) == quotas.throttle(None, Name("c")) == 2.0
    assert {type(name) for _, name, _, _ in quotas.usage()} == {str}


# ------------------------------------------------------------------------------------------------------------ the clock


def test_a_clock_that_goes_back_counts_as_no_time_passed(clock):
    quotas = Quotas(group_commits_per_second=1, clock=clock)
    quotas.charge("g", None, 4, 0)
    clock.move(-4)
    assert quotas.throttle("g", None) == 3.0
    assert quotas.charge("new", None, 4, 0) == 0
    # Up to the latest time nothing is gained twice.
    clock.move(4)
    assert quotas.throttle("g", None) == quotas.throttle("new", None) == 3.0
    clock.move(1)
    assert quotas.throttle("g", None) == quotas.throttle("new", None) == 2.0


def test_the_clock_is_called_once_a_charge_and_before_any_change(clock):
    quotas = Quotas(group_commits_per_second=1, clock=clock)
    quotas.charge("g", None, 1, 0)
    assert clock.calls == 1
    nested: list[float] = []

    def charging() -> int:
        if not nested:
            nested.append(-1.0)
            nested[0] = recursive.charge("g", None, 5, 0)
        return clock.now

    recursive = Quotas(group_commits_per_second=1, clock=charging)
    assert recursive.charge("g", None, 1, 0) == 4.0
    assert nested == [0.0]


@pytest.mark.parametrize("wrong", [-1, 2**62 + 1, 2**64, 1.5, None])
def test_a_wrong_clock_is_refused(wrong):
    quotas = Quotas(group_commits_per_second=1, clock=lambda: wrong)
    with pytest.raises(InvalidArgumentError, match=r"the clock must return an int from 0 to 2\*\*62"):
        quotas.charge("g", None, 1, 0)


def test_the_error_of_a_clock_is_raised(clock):
    def failing() -> int:
        raise LookupError("no time")

    with pytest.raises(LookupError, match="no time"):
        Quotas(group_commits_per_second=1, clock=failing).charge("g", None, 1, 0)


def test_the_clock_of_the_machine_moves():
    quotas = Quotas(group_commits_per_second=200)
    assert quotas.charge("g", None, 202, 0) == 0
    waits = quotas.charge("g", None, 1, 0)
    # Others run at the same time, so this can be late.
    assert 0 <= waits <= 0.01
    time.sleep(0.01)
    assert quotas.charge("g", None, 1, 0) == 0


def test_threads_share_quotas(clock):
    quotas = Quotas(group_commits_per_second=1000, client_commits_per_second=1e9, clock=clock)
    admitted = []

    def commit(number: int) -> None:
        admitted.append(sum(quotas.charge("g", f"c{number}", 1, 0) == 0 for _ in range(5000)))

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(admitted) == 1001
    assert sum(1e9 - commits for commits, _ in balances(quotas, "client").values()) == 1001


# ---------------------------------------------------------------------------------------------------------- huge values


def test_huge_commits_and_waits(clock):
    quotas = Quotas(group_commits_per_second=1e-300, group_bytes_per_second=1, clock=clock)
    assert quotas.charge("g", None, 2**63 - 1, 2**63 - 1) == 0
    assert quotas.charge("g", None, 0, 0) == WAIT_MAX
    clock.now = 2**62
    assert quotas.charge("g", None, 0, 0) == WAIT_MAX
    assert balances(quotas)["g"][0] == -(2.0**63)


def test_huge_rates(clock):
    quotas = Quotas(group_commits_per_second=1e300, group_bytes_per_second=1.7e308, burst_seconds=1.0, clock=clock)
    assert [quotas.charge("g", None, 2**63 - 1, 2**63 - 1) for _ in range(3)] == [0, 0, 0]
    clock.now = 2**62
    assert balances(quotas) == {"g": (1e300, 1.7e308)}


def test_a_large_debt_is_paid_however_often_somebody_tries(clock):
    quotas = Quotas(group_bytes_per_second=1e9, clock=clock)
    assert quotas.charge("g", None, 1, 10**17) == 0
    # Doubles near 10**17 are 16 apart: one byte at a time would be rounded away.
    for _ in range(10_000):
        clock.now += 1
        assert quotas.charge("g", None, 1, 1) > 0
    assert balances(quotas)["g"][1] == pytest.approx(10**9 - 10**17 + 10_000, rel=0, abs=16)


def test_after_the_wait_a_commit_is_admitted(clock):
    seed = first_seed()
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(by_depth(gate=5000, long=100_000)):
        rate = 10 ** rng.uniform(-6, 12)
        quotas = Quotas(group_bytes_per_second=rate, burst_seconds=10 ** rng.uniform(-3, 3), clock=clock)
        clock.now = rng.randrange(2 ** rng.randrange(1, 60))
        quotas.charge("g", None, 1, int(rate * 10 ** rng.uniform(-2, 6)))
        clock.now += rng.randrange(2 ** rng.randrange(1, 30))
        waits = quotas.throttle("g", None)
        if waits > 0:
            # Doubles of seconds are exact to the nanosecond for 104 days.
            exact = waits * SECOND < 2**53
            clock.now += round(waits * SECOND) if exact else math.ceil(waits * SECOND * (1 + 2**-51))
            assert quotas.charge("g", None, 1, 1) == 0, (rate, waits)


# ------------------------------------------------------------------------------------------------------------ arguments


@pytest.mark.parametrize(("count", "nbytes"), [(-1, 0), (0, -1), (-(2**63), -(2**63))])
def test_negative_amounts_are_refused(clock, count, nbytes):
    quotas = Quotas(group_commits_per_second=1, clock=clock)
    for target in (quotas, Quotas()):
        with pytest.raises(InvalidArgumentError, match="must not be negative"):
            target.charge("g", "c", count, nbytes)
    assert quotas.usage() == []


@pytest.mark.parametrize(("count", "nbytes"), [(2**63, 0), (0, 2**63)])
def test_amounts_beyond_64_bits_are_refused(clock, count, nbytes):
    quotas = Quotas(group_commits_per_second=1, clock=clock)
    with pytest.raises(OverflowError):
        quotas.charge("g", "c", count, nbytes)
    assert quotas.usage() == []


@pytest.mark.parametrize("name", [b"g", 1, ("g",)])
def test_a_name_is_a_str(clock, name):
    quotas = Quotas(group_commits_per_second=1, clock=clock)
    with pytest.raises(ArgumentTypeError, match="the group must be a str or None"):
        quotas.charge(name, None, 1, 0)
    with pytest.raises(ArgumentTypeError, match="the client must be a str or None"):
        quotas.throttle(None, name)
    with pytest.raises(ArgumentTypeError, match="the group must be a str"):
        quotas.set_group(name, 1, 1)
    with pytest.raises(ArgumentTypeError, match="the client must be a str"):
        quotas.remove_client(name)


def test_an_override_needs_a_name():
    quotas = Quotas()
    for call in (quotas.remove_group, quotas.remove_client):
        with pytest.raises(ArgumentTypeError, match="must be a str, not None"):
            call(None)
    with pytest.raises(ArgumentTypeError, match="the client must be a str, not None"):
        quotas.set_client(None, 1, 1)


RATES = (
    "group_commits_per_second",
    "group_bytes_per_second",
    "client_commits_per_second",
    "client_bytes_per_second",
    "burst_seconds",
)


@pytest.mark.parametrize("name", RATES)
@pytest.mark.parametrize("value", [0, -1, -0.5, INF, -INF, math.nan, 10**400, -(10**400)])
def test_a_rate_is_finite_and_positive(name, value):
    with pytest.raises(ConfigError, match=rf"{name} must be finite and above 0"):
        Quotas(**{name: value})


@pytest.mark.parametrize("name", RATES)
@pytest.mark.parametrize("value", ["1", True, b"", 1j])
def test_a_rate_is_a_number(name, value):
    with pytest.raises(ArgumentTypeError, match=rf"{name} must be a number, not"):
        Quotas(**{name: value})


def test_a_rate_of_an_override_is_checked_and_nothing_is_changed(clock):
    quotas = Quotas(group_commits_per_second=1, burst_seconds=10, clock=clock)
    for call in (quotas.set_group, quotas.set_client):
        with pytest.raises(ConfigError, match="commits_per_second must be finite"):
            call("g", 0, 1)
        with pytest.raises(ConfigError, match="bytes_per_second must be finite"):
            call("g", 1, math.nan)
        with pytest.raises(ConfigError, match=r"times burst_seconds=10\.0 must be finite"):
            call("g", 1, 1e308)
    assert quotas.usage() == []


def test_a_burst_must_be_finite():
    with pytest.raises(ConfigError, match=r"group_bytes_per_second=1e\+308 times burst_seconds=100.0 must be finite"):
        Quotas(group_bytes_per_second=1e308, burst_seconds=100)


@pytest.mark.parametrize(
    ("value", "error"), [(0, ConfigError), (-1, ConfigError), (2**31, ConfigError), (1.0, ArgumentTypeError)]
)
def test_the_number_of_entities_is_checked(value, error):
    with pytest.raises(error, match="max_entities must be"):
        Quotas(max_entities=value)


def test_a_clock_is_callable():
    with pytest.raises(ArgumentTypeError, match="clock must be callable or None, not int"):
        Quotas(clock=5)


def test_only_quotas_make_buckets():
    for kind in (Bucket, Buckets):
        with pytest.raises(TypeError, match="cannot be created directly; Quotas creates it"):
            kind()


# ------------------------------------------------------------------------------------------------------- an exact model


def check_against_model(seed: int, steps: int, max_entities: int) -> tuple[int, int]:
    """Compares random calls with the model; returns how many commits waited and how many were not tracked."""
    rng = random.Random(seed)
    clock = Clock()

    def rate() -> float | None:
        return rng.choice([None, 1, 7, 1 / 3, 0.1, 1000.0, 10 ** rng.uniform(-2, 7)])

    rates = {"group": (rate(), rate()), "client": (rate(), rate())}
    burst_seconds = rng.choice([1.0, 0.1, 5, 1 / 7])
    quotas = Quotas(
        group_commits_per_second=rates["group"][0],
        group_bytes_per_second=rates["group"][1],
        client_commits_per_second=rates["client"][0],
        client_bytes_per_second=rates["client"][1],
        burst_seconds=burst_seconds,
        max_entities=max_entities,
        clock=clock,
    )
    model = Model(rates, burst_seconds)
    names = {"group": [f"g{number}" for number in range(6)], "client": [f"c{number}" for number in range(3)]}
    waited, latest = 0, clock.now
    # The first call that reads the clock.
    assert quotas.usage() == []
    for step in range(steps):
        place = f"seed {seed}, step {step}"
        steps_ns = [0, 1, rng.randrange(10**6), rng.randrange(10**9), rng.randrange(10**11), -rng.randrange(10**9)]
        clock.now = latest + rng.choice(steps_ns)
        model.move(Fraction(max(0, clock.now - latest), SECOND))
        latest = max(latest, clock.now)
        kind = rng.choice(["group", "client"])
        action = rng.random()
        if action < 0.03:
            name, chosen = rng.choice(names[kind]), (rate(), rate())
            (quotas.set_group if kind == "group" else quotas.set_client)(name, *chosen)
            model.change(kind, name, chosen)
        elif action < 0.06:
            name = rng.choice(names[kind])
            (quotas.remove_group if kind == "group" else quotas.remove_client)(name)
            model.change(kind, name, rates[kind])
        else:
            chosen_names = {each: rng.choice(names[each]) for each in names}
            waited += charge_both(quotas, model, chosen_names, rng, place)
    for kind, name, *found in quotas.usage():
        for balance, level in zip(found, model.levels_of(kind, name), strict=True):
            expected = INF if level.rate is None else float(level.balance)
            assert balance == pytest.approx(expected, rel=1e-9, abs=1e-9 * (1 + float(level.burst))), (seed, kind, name)
    return waited, quotas.untracked


def charge_both(quotas: Quotas, model: Model, names: dict[str, str], rng: random.Random, place: str) -> bool:
    """Charges one commit to the quotas and to the model; returns whether it had to wait."""
    count, nbytes = rng.choice([0, 1, 1, 5]), rng.choice([0, 1, 100, rng.randrange(10**6)])
    expected = model.wait(names)
    throttled = quotas.throttle(names["group"], names["client"])
    waits = quotas.charge(names["group"], names["client"], count, nbytes)
    assert throttled == waits, place
    # Both admit it or neither does, but for rounding: to a nanosecond, and of doubles.
    slack = float(expected) * 1e-9 + 1e-8
    assert abs(waits - float(expected)) <= slack, (place, waits, float(expected))
    if waits == 0:
        # A name without a bucket has no limit, or was not tracked.
        for kind, name in names.items():
            if name in balances(quotas, kind):
                model.take(kind, name, count, nbytes)
    return waits > 0


@pytest.mark.parametrize("max_entities", [100, 2])
def test_quotas_do_what_an_exact_model_does(max_entities):
    first = first_seed()
    counts = []
    for seed in range(first, first + by_depth(gate=60, long=600)):
        print(f"seed {seed}")
        counts.append(check_against_model(seed, 400, max_entities))
    waited, untracked = map(sum, zip(*counts, strict=True))
    assert waited > 1000
    assert (untracked > 100) == (max_entities == 2)
