"""Limits the commits per second and the bytes per second of each group and of each client, with token buckets.

**Admission.** A bucket gains tokens at its rate every second, and holds at most the rate times `burst_seconds`.  A
commit is admitted if none of its buckets is below zero.  The commit may take a bucket below zero; the next commit then
waits until that debt is paid.  For this reason, a commit that is larger than a burst is not refused forever.  Kafka
limits controller mutations by the same rule.  A commit is charged to all of its buckets or to none.

**Isolation.** A debt belongs to one group or one client.  No bucket is shared, so no client waits for another's debt.

**Memory.** At most `max_entities` groups without an override have a bucket.  The same limit applies to clients.  When
all these buckets are in use, a new name replaces a full bucket.  This loses nothing, because a name with a full bucket
is treated exactly like a new name.  A bucket that is not full is never replaced; otherwise a client in debt could clear
its debt by sending many new names.  For each new name only a few buckets are inspected.  The search continues where the
last one ended, so a flood of new names costs little time.

If no full bucket is found for a new name, the name is admitted without a bucket, and `untracked` counts it.  Refusing
it would delay every new name during a flood.  If new names shared a bucket, all of them would wait for the flood's
debt.  The flood gains nothing, because every new name may commit once in any case: no limit by name stops a client that
invents a name for each commit.  If clients cannot choose their own names, the limits on clients stop a client that
invents group names.
"""

cimport cython
from cpython.dict cimport PyDict_GetItemWithError
from cpython.ref cimport PyObject
from cpython.unicode cimport PyUnicode_Check, PyUnicode_CheckExact, PyUnicode_FromObject
from libc.math cimport INFINITY, ceil, isfinite
from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from hashlib import sha256

from offsetlog.errors import ArgumentTypeError, ConfigError, InvalidArgumentError

cdef enum:
    INSPECTED_MAX = 16      # the most buckets that are inspected to find a place for a new name
    NAME_SIZE_MAX = 256     # characters; a longer name is shortened

# A caller's clock returns at most 146 years, and a wait is at most 73 years, so that no sum of them overflows.
cdef int64_t CLOCK_NS_MAX = <int64_t>1 << 62
cdef int64_t WAIT_NS_MAX = <int64_t>1 << 61


# ------------------------------------------------------------------------------------------------------------ one limit


# A listing can reach a bucket that was charged after the listing read the clock.
cdef inline double seconds_between(int64_t earlier_ns, int64_t later_ns) noexcept:
    if later_ns <= earlier_ns:
        return 0.0
    return <double>(later_ns - earlier_ns) / 1e9


cdef inline double balance_after(const meter *limit, double seconds) noexcept:
    cdef double balance = limit.balance + limit.per_second * seconds
    return balance if balance < limit.burst else limit.burst


# A full meter stays full; any other keeps its debt or its tokens, which `balance_after` limits to one burst.
cdef void set_limit(meter *limit, double per_second, double burst_seconds) noexcept:
    cdef bint was_full = limit.balance >= limit.burst
    limit.per_second = per_second
    limit.burst = per_second * burst_seconds if per_second > 0 else INFINITY
    if was_full or per_second == 0:
        limit.balance = limit.burst


# Nanoseconds until the balance is not below zero, rounded up until the arithmetic of a charge agrees.
cdef int64_t debt_ns(const meter *limit, int64_t at_ns, int64_t now) noexcept:
    cdef double balance = balance_after(limit, seconds_between(at_ns, now))
    cdef double estimate_ns
    cdef int64_t wait_ns, step_ns = 1
    if balance >= 0:
        return 0
    estimate_ns = ceil(-balance / limit.per_second * 1e9)
    if not estimate_ns < <double>WAIT_NS_MAX:
        return WAIT_NS_MAX
    wait_ns = <int64_t>estimate_ns
    while wait_ns < WAIT_NS_MAX and balance_after(limit, seconds_between(at_ns, now + wait_ns)) < 0:
        wait_ns += step_ns
        step_ns *= 2
    return wait_ns


# ------------------------------------------------------------------------------------------------- the limits of a name



cpdef int check_client(object client, object principal) except -1:
    """Raises ArgumentTypeError if the name of a client or of its user is invalid."""
    if not (client is None or PyUnicode_Check(client)):
        raise ArgumentTypeError(f"the client must be a str or None, not {type(client).__name__}")
    if not (principal is None or PyUnicode_Check(principal)):
        raise ArgumentTypeError(f"the principal must be a str or None, not {type(principal).__name__}")
    return 0


def client_name(client, principal):
    """Returns the name of a client's bucket: the client's name, and if it has a principal, a NUL and the principal.

    Clients of the same name therefore share a bucket only if they have the same principal.
    """
    if principal is None:
        return client
    return f"{principal}\0{'' if client is None else client}"


@cython.final
@cython.freelist(256)
cdef class Bucket:
    """The quota of one name, and the tokens that are left."""

    def __init__(self):
        raise TypeError("Bucket cannot be created directly; Quotas creates it")

    # A new bucket, which has no limits yet, starts full.
    cdef void set_limits(self, double commits_per_second, double bytes_per_second, double burst_seconds,
                         int64_t now) noexcept:
        self.take(0, 0, now)
        set_limit(&self.commits, commits_per_second, burst_seconds)
        set_limit(&self.nbytes, bytes_per_second, burst_seconds)

    cdef inline bint is_full(self, int64_t now) noexcept:
        cdef double seconds = seconds_between(self.at_ns, now)
        return (
            balance_after(&self.commits, seconds) >= self.commits.burst
            and balance_after(&self.nbytes, seconds) >= self.nbytes.burst
        )

    cdef inline int64_t wait_ns(self, int64_t now) noexcept:
        cdef double seconds = seconds_between(self.at_ns, now)
        if balance_after(&self.commits, seconds) >= 0 and balance_after(&self.nbytes, seconds) >= 0:
            return 0
        return max(debt_ns(&self.commits, self.at_ns, now), debt_ns(&self.nbytes, self.at_ns, now))

    # A refused commit does not write the balances.  Otherwise the few tokens that a small rate adds between two attempts
    # could be lost to rounding beside a large debt, and the debt would never be paid.
    cdef inline void take(self, double count, double nbytes, int64_t now) noexcept:
        cdef double seconds = seconds_between(self.at_ns, now)
        self.commits.balance = balance_after(&self.commits, seconds) - count
        self.nbytes.balance = balance_after(&self.nbytes, seconds) - nbytes
        self.at_ns = now


# ------------------------------------------------------------------------------------------------ all names of one kind


@cython.no_gc   # nothing that it refers to leads back to it
@cython.final
cdef class Buckets:
    """The buckets of groups, or of clients.

    The GIL protects the buckets: while they are changed, no Python code and no garbage collection runs.
    """

    def __init__(self):
        raise TypeError("Buckets cannot be created directly; Quotas creates it")

    cdef inline bint limits_all(self) noexcept:
        return self.commits_per_second > 0 or self.bytes_per_second > 0

    cdef inline bint limits_any(self) noexcept:
        return self.limits_all() or len(self.named) > 0

    # Returns None if nothing limits the name, or if it has no bucket, which is equivalent to a full bucket.
    cdef inline Bucket find(self, str name):
        cdef PyObject *found
        if name is None:
            return None
        found = PyDict_GetItemWithError(self.named, name)
        return <Bucket>found if found != NULL else None

    cdef Bucket new_bucket(self, str name, int64_t now):
        cdef Bucket bucket = Bucket.__new__(Bucket)
        bucket.name = name
        bucket.place = -1
        bucket.set_limits(self.commits_per_second, self.bytes_per_second, self.burst_seconds, now)
        return bucket

    # Returns a new bucket for a name that has none; None if every inspected bucket is in use.
    cdef Bucket add(self, str name, int64_t now):
        cdef Bucket bucket = self.new_bucket(name, now)
        if len(self.automatic) < self.automatic_max:
            self.append(bucket)
        elif not self.replace_full(bucket, INSPECTED_MAX, now):
            return None
        return bucket

    cdef int append(self, Bucket bucket) except -1:
        self.named[bucket.name] = bucket
        try:
            self.automatic.append(bucket)
        except MemoryError:
            del self.named[bucket.name]
            raise
        bucket.place = len(self.automatic) - 1
        return 0

    cdef bint replace_full(self, Bucket bucket, Py_ssize_t inspected_max, int64_t now) except -1:
        cdef Bucket old
        cdef Py_ssize_t inspected, place
        for inspected in range(min(inspected_max, len(self.automatic))):
            place = self.hand if self.hand < len(self.automatic) else 0
            self.hand = place + 1
            old = self.automatic[place]
            if old.is_full(now):
                self.named[bucket.name] = bucket
                del self.named[old.name]
                self.automatic[place] = bucket
                bucket.place = place
                return True
        return False

    cdef int set_override(self, str name, double commits_per_second, double bytes_per_second, int64_t now) except -1:
        cdef Bucket last
        cdef Bucket bucket = self.find(name)
        if bucket is None:
            bucket = self.new_bucket(name, now)
            self.named[name] = bucket
        elif bucket.place >= 0:
            # The last bucket takes its place.
            last = self.automatic.pop()
            if last is not bucket:
                self.automatic[bucket.place] = last
                last.place = bucket.place
            bucket.place = -1
        bucket.set_limits(commits_per_second, bytes_per_second, self.burst_seconds, now)
        return 0

    # A bucket that is not full stays.  If no other bucket is full either, the number of buckets exceeds `automatic_max`.
    # Only an operator, who removes an override, can cause this.
    cdef int remove_override(self, str name, int64_t now) except -1:
        cdef Bucket bucket = self.find(name)
        if bucket is None or bucket.place >= 0:
            return 0
        bucket.set_limits(self.commits_per_second, self.bytes_per_second, self.burst_seconds, now)
        if bucket.is_full(now):
            del self.named[name]
            return 0
        if len(self.automatic) >= self.automatic_max and self.replace_full(bucket, len(self.automatic), now):
            return 0
        return self.append(bucket)

    cdef list listed(self, int64_t now):
        # A garbage collection meanwhile may run code that charges, so the loop uses its own list.
        cdef Bucket bucket
        cdef double seconds
        cdef list rows = []
        for bucket in list(self.named.values()):
            seconds = seconds_between(bucket.at_ns, now)
            commits, nbytes = balance_after(&bucket.commits, seconds), balance_after(&bucket.nbytes, seconds)
            rows.append((self.kind, bucket.name, commits, nbytes))
        return rows


cdef Buckets new_buckets(str kind, double commits_per_second, double bytes_per_second, double burst_seconds,
                         Py_ssize_t automatic_max):
    cdef Buckets made = Buckets.__new__(Buckets)
    made.kind = kind
    made.named = {}
    made.automatic = []
    made.automatic_max = automatic_max
    made.commits_per_second = commits_per_second
    made.bytes_per_second = bytes_per_second
    made.burst_seconds = burst_seconds
    return made


# -------------------------------------------------------------------------------------------------------- the arguments


cdef double take_positive(str name, object value) except -1:
    cdef double number
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ArgumentTypeError(f"{name} must be a number, not {type(value).__name__}")
    try:
        number = value
    except OverflowError:
        number = INFINITY
    if not (number > 0 and isfinite(number)):
        raise ConfigError(f"{name} must be finite and above 0, not {value!r}")
    return number


# Returns 0.0 for None, which means no limit.
cdef double take_rate(str name, object value, double burst_seconds) except -1:
    cdef double number
    if value is None:
        return 0.0
    number = take_positive(name, value)
    if not isfinite(number * burst_seconds):
        raise ConfigError(f"{name}={value!r} times burst_seconds={burst_seconds!r} must be finite; use None for no limit")
    return number


# Returns the name as a plain str, whose hash and comparison run no Python code; None if no name is given.
cdef inline str take_entity(str kind, object name):
    if name is None or (PyUnicode_CheckExact(name) and len(<str>name) <= NAME_SIZE_MAX):
        return <str>name
    return convert_entity(kind, name)


# A long name is kept as its first characters and its digest, so that names do not need more memory than buckets.
cdef str convert_entity(str kind, object name):
    cdef str plain
    if not PyUnicode_Check(name):
        raise ArgumentTypeError(f"the {kind} must be a str or None, not {type(name).__name__}")
    plain = PyUnicode_FromObject(name)
    if len(plain) <= NAME_SIZE_MAX:
        return plain
    return f"{plain[:64]}...{sha256(plain.encode('utf-8', 'surrogatepass')).hexdigest()}"


cdef str take_override(Buckets buckets, object name):
    if name is None:
        raise ArgumentTypeError(f"the {buckets.kind} must be a str, not None")
    return take_entity(buckets.kind, name)


cdef int set_override(Quotas quotas, Buckets buckets, object name, object commits_per_second,
                      object bytes_per_second) except -1:
    cdef str entity = take_override(buckets, name)
    cdef double commits = take_rate("commits_per_second", commits_per_second, buckets.burst_seconds)
    cdef double nbytes = take_rate("bytes_per_second", bytes_per_second, buckets.burst_seconds)
    return buckets.set_override(entity, commits, nbytes, quotas.now())


# ----------------------------------------------------------------------------------------------------------- the quotas


cdef inline int64_t longest_wait_ns(Bucket of_group, Bucket of_client, int64_t now) noexcept:
    cdef int64_t wait_ns = 0
    if of_group is not None:
        wait_ns = of_group.wait_ns(now)
    if of_client is not None:
        wait_ns = max(wait_ns, of_client.wait_ns(now))
    return wait_ns


@cython.no_gc_clear     # a charge during a garbage collection finds the buckets
@cython.final
cdef class Quotas:
    """Decides whether a commit is admitted now, or how long it must wait.  The limits of its group and client count.

    The docstring of the module states the rules.  Threads share a Quotas without a lock.  The GIL protects it, because
    a charge runs no Python code but the `clock` of the caller.  The clock is called before any balance is read.

    Args:
        group_commits_per_second: the limit of each group for which `set_group` set no limits.  For this argument and
            the next three, None means no limit.
        group_bytes_per_second: the limit of each such group in bytes.
        client_commits_per_second: the limit of each client for which `set_client` set no limits.
        client_bytes_per_second: the limit of each such client in bytes.
        burst_seconds: the time in which an unused bucket fills from zero.  A full bucket holds the rate times this
            time.
        max_entities: how many groups that have no limits of their own can have a bucket at a time; the same number
            holds for clients.
        clock: a function for tests that returns nanoseconds, from 0 to 2**62; None for CLOCK_MONOTONIC.  While its
            value is lower than an earlier one, no time passes for the quotas.

    Attributes:
        untracked: how many new names got no bucket, because all inspected buckets were in use.

    Raises:
        ConfigError: a rate or `burst_seconds` is not a finite number above 0, or `max_entities` is not from 1 to
            2147483647.
    """

    def __cinit__(self, *, group_commits_per_second=None, group_bytes_per_second=None, client_commits_per_second=None,
                  client_bytes_per_second=None, burst_seconds=1.0, max_entities=65536, clock=None):
        cdef double burst = take_positive("burst_seconds", burst_seconds)
        if isinstance(max_entities, bool) or not isinstance(max_entities, int):
            raise ArgumentTypeError(f"max_entities must be an int, not {type(max_entities).__name__}")
        if not 1 <= max_entities < 2**31:
            raise ConfigError(f"max_entities must be from 1 to 2147483647, not {max_entities}")
        if clock is not None and not callable(clock):
            raise ArgumentTypeError(f"clock must be callable or None, not {type(clock).__name__}")
        self.groups = new_buckets(
            "group",
            take_rate("group_commits_per_second", group_commits_per_second, burst),
            take_rate("group_bytes_per_second", group_bytes_per_second, burst),
            burst,
            max_entities,
        )
        self.clients = new_buckets(
            "client",
            take_rate("client_commits_per_second", client_commits_per_second, burst),
            take_rate("client_bytes_per_second", client_bytes_per_second, burst),
            burst,
            max_entities,
        )
        self.clock = clock

    cpdef double charge(self, object group, object client, int64_t count, int64_t nbytes) except -1.0:
        """Charges a commit to its group and its client, if neither has a bucket below zero.

        Args:
            group: the group; None for no group.
            client: the client; None for no client.
            count: the number of commits.
            nbytes: the number of bytes.

        Returns:
            0.0 if the commit was charged; otherwise the number of seconds until it can be charged, at most 73 years.

        Raises:
            InvalidArgumentError: the count or the bytes are negative, or a name is not a str.
            OverflowError: the count or the bytes do not fit 64 bits.
        """
        cdef Bucket of_group, of_client
        cdef int64_t now, wait_ns
        cdef str group_name = take_entity("group", group)
        cdef str client_name = take_entity("client", client)
        if count < 0 or nbytes < 0:
            raise InvalidArgumentError(f"count and nbytes must not be negative, but are {count} and {nbytes}")
        if not (self.groups.limits_any() or self.clients.limits_any()):
            return 0.0
        now = self.now()
        of_group = self.groups.find(group_name)
        of_client = self.clients.find(client_name)
        wait_ns = longest_wait_ns(of_group, of_client, now)
        if wait_ns > 0:
            return <double>wait_ns / 1e9
        # Only an admitted commit creates buckets, and both are created before either is charged.
        if of_group is None and group_name is not None and self.groups.limits_all():
            of_group = self.groups.add(group_name, now)
            self.untracked += of_group is None
        if of_client is None and client_name is not None and self.clients.limits_all():
            of_client = self.clients.add(client_name, now)
            self.untracked += of_client is None
        if of_group is not None:
            of_group.take(<double>count, <double>nbytes, now)
        if of_client is not None:
            of_client.take(<double>count, <double>nbytes, now)
        return 0.0

    cpdef double throttle(self, object group, object client) except -1.0:
        """Returns the seconds until a commit of the group and the client would be admitted; 0.0 means now."""
        cdef Bucket of_group, of_client
        cdef int64_t now
        cdef str group_name = take_entity("group", group)
        cdef str client_name = take_entity("client", client)
        now = self.now()
        of_group = self.groups.find(group_name)
        of_client = self.clients.find(client_name)
        return <double>longest_wait_ns(of_group, of_client, now) / 1e9

    def used_up(self, group, client):
        """Returns the names of the limits that a group and a client have used up, such as "the commits of group 'orders'"."""
        cdef int64_t now = self.now()
        cdef list found = []
        cdef Bucket bucket
        cdef double seconds
        for buckets, name in ((self.groups, take_entity("group", group)), (self.clients, take_entity("client", client))):
            bucket = (<Buckets>buckets).find(name)
            if bucket is None:
                continue
            whose = f"{(<Buckets>buckets).kind} {name.rpartition(chr(0))[2]!r}"
            seconds = seconds_between(bucket.at_ns, now)
            if balance_after(&bucket.commits, seconds) < 0:
                found.append(f"the commits of {whose}")
            if balance_after(&bucket.nbytes, seconds) < 0:
                found.append(f"the bytes of {whose}")
        return " and ".join(found)

    def set_group(self, name, commits_per_second, bytes_per_second):
        """Sets the limits of one group; None means no limit.

        A full bucket stays full.  Any other bucket keeps its tokens, but not more than a full bucket holds under the
        new limits.  A bucket below zero stays below zero.

        Raises:
            ConfigError: a rate is not finite and above 0.
        """
        set_override(self, self.groups, name, commits_per_second, bytes_per_second)

    def set_client(self, name, commits_per_second, bytes_per_second):
        """Sets the limits of one client, as `set_group` does for a group."""
        set_override(self, self.clients, name, commits_per_second, bytes_per_second)

    def remove_group(self, name):
        """Returns a group to the common limits.  Its debt remains.

        Does nothing if the group has no limits of its own.
        """
        self.groups.remove_override(take_override(self.groups, name), self.now())

    def remove_client(self, name):
        """Returns a client to the common limits, as `remove_group` does for a group."""
        self.clients.remove_override(take_override(self.clients, name), self.now())

    def usage(self):
        """Returns the present tokens of every bucket as (kind, name, commits, bytes).

        A number without a limit is infinite.  A number below zero is a debt.

        The kind is "group" or "client".  A name that has no row is not in debt.  A name longer than 256 characters is
        shortened.
        """
        cdef int64_t now = self.now()
        return self.groups.listed(now) + self.clients.listed(now)

    cdef inline int64_t now(self) except -1:
        cdef timespec monotonic
        cdef int64_t now
        if self.clock is None:
            clock_gettime(CLOCK_MONOTONIC, &monotonic)
            now = <int64_t>monotonic.tv_sec * 1_000_000_000 + monotonic.tv_nsec
        else:
            now = self.given_now()
        if now > self.latest_ns:
            self.latest_ns = now
        return self.latest_ns

    cdef int64_t given_now(self) except -1:
        now = self.clock()
        if not isinstance(now, int) or not 0 <= now <= CLOCK_NS_MAX:
            raise InvalidArgumentError(f"the clock must return an int from 0 to 2**62, not {now!r}")
        return now
