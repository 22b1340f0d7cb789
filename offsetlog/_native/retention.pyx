"""The retention of one partition: expires positions, or lists those that will (docs/format/coordinator.md §5.13)."""

cimport cython
from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memset

from offsetlog._native.buffers cimport NAME_GROUP, NAME_TOPIC, take_name, text_of
from offsetlog._native.csrc cimport (
    OL_GROUP_CLASSIC,
    OL_RETENTION_NEVER,
    atomic_flag_value,
    c_bool,
    ol_string_dictionary,
    ol_string_dictionary_get,
    ol_error,
    ol_expiring_row,
    ol_expiring_rows,
    ol_expiring_rows_free,
    ol_group_state,
    ol_group_view,
    ol_partition_newest_timestamp,
    ol_retention_expire,
    ol_retention_expire_group,
    ol_retention_options,
    ol_retention_preview,
    ol_retention_report,
    ol_retention_rule,
    ol_retention_rules,
    ol_retention_rules_create,
    ol_retention_rules_destroy,
    ol_slice,
)
from offsetlog._native.partition cimport Partition
from offsetlog._native.status cimport check

from offsetlog.errors import InternalError

# Names of the values of ol_expiry_base, in order; the first is never reported.
REASONS = ("never", "commit", "empty", "expire_timestamp", "group")

# An ol_expiring_row.
_ROW = [
    ("expires_at", "<i8"),
    ("counted_from", "<i8"),
    ("retention_ms", "<i8"),
    ("offset", "<i8"),
    ("log_offset", "<i8"),
    ("group", "<i4"),
    ("topic", "<i4"),
    ("partition", "<i4"),
    ("rule", "<i4"),
    ("log_partition", "<i4"),
    ("reason", "<i4"),
]


@cython.final
cdef class ExpiryRules:
    """The retention of each group.  The object is immutable, and any thread may use it."""

    cdef ol_retention_rules *rules

    def __cinit__(self):
        self.rules = NULL

    def __init__(self, list rules not None, default_ms):
        """Sets the rules and the default retention.

        A rule is (group or prefix, whether it is a prefix, milliseconds or None for never).

        Raises GroupError if a name is invalid, and InvalidArgumentError if two rules have the same name.
        """
        cdef ol_error error
        cdef size_t index, count = <size_t>len(rules)
        cdef int64_t otherwise = OL_RETENTION_NEVER if default_ms is None else default_ms
        cdef ol_retention_rules *created = NULL
        cdef ol_retention_rule *given = <ol_retention_rule *>calloc(count + 1, sizeof(ol_retention_rule))
        if given == NULL:
            raise MemoryError()
        try:
            for index in range(count):
                group, is_prefix, retention_ms = rules[index]
                take_name(group, NAME_GROUP, &given[index].group)
                given[index].is_prefix = is_prefix
                given[index].retention_ms = OL_RETENTION_NEVER if retention_ms is None else retention_ms
            check(ol_retention_rules_create(given, count, otherwise, &created, &error), &error)
        finally:
            free(given)
        ol_retention_rules_destroy(self.rules)
        self.rules = created

    def __dealloc__(self):
        ol_retention_rules_destroy(self.rules)


@cython.final
cdef class ExpiryStop:
    """Stops an expiry run at its next group.  Any thread may use the object."""

    cdef atomic_flag_value asked

    def __cinit__(self):
        self.asked = False

    def set(self):
        """Asks the run to end."""
        self.asked = True

    @property
    def is_set(self):
        """Whether `set` was called."""
        return bool(self.asked)


cdef dict _report_of(const ol_retention_report *report):
    return {
        "groups": report.groups,
        "groups_never": report.groups_never,
        "groups_held": report.groups_held,
        "groups_removed": report.groups_removed,
        "positions_expired": report.positions_expired,
        "positions_pending": report.positions_pending,
        "batches": report.batches,
        "end_offset": report.end_offset,
        "term": report.term,
        "stopped": bool(report.stopped),
    }


cdef _set_options(ol_retention_options *options, ExpiryRules rules, int64_t now_ms, ExpiryStop stop):
    if rules.rules == NULL:
        raise InternalError("the rules have not been initialized")
    memset(options, 0, sizeof(options[0]))
    options.rules = rules.rules
    options.now_ms = now_ms
    options.stop = &stop.asked if stop is not None else NULL


def newest_timestamp(Partition partition not None):
    """Returns the greatest timestamp of a partition's batches, in ms since 1970; 0 or -1 if no batch has one."""
    cdef int64_t newest
    partition.enter()
    try:
        with nogil:
            newest = ol_partition_newest_timestamp(partition.handle)
    finally:
        partition.leave()
    return newest


def expire(Partition partition not None, ExpiryRules rules not None, int64_t now_ms, ExpiryStop stop=None):
    """Deletes expired positions, and returns the counters of the run.

    The caller waits for the counter `end_offset`; it is -1 if nothing was written.  Raises StateError, StorageError,
    TooLargeError or CapacityError.  Positions of earlier groups that the run has deleted stay deleted.
    """
    cdef ol_retention_options options
    cdef ol_retention_report report
    cdef ol_error error
    _set_options(&options, rules, now_ms, stop)
    partition.enter()
    try:
        with nogil:
            check(ol_retention_expire(partition.handle, &options, &report, &error), &error)
    finally:
        partition.leave()
    return _report_of(&report)


cdef struct live_group:
    # The topics to which the members of a stable consumer group are subscribed.
    ol_slice *topics
    size_t count


cdef c_bool _live_view(void *context, ol_slice group, ol_group_view *view) noexcept nogil:
    memset(view, 0, sizeof(view[0]))
    view.kind = OL_GROUP_CLASSIC
    view.is_stable = view.is_consumer_protocol = view.subscription_known = True
    view.state_timestamp = -1
    return True


cdef c_bool _live_reads(void *context, ol_slice group, ol_slice topic) noexcept nogil:
    cdef live_group *live = <live_group *>context
    cdef size_t index
    for index in range(live.count):
        if live.topics[index].size == topic.size and memcmp(live.topics[index].data, topic.data, topic.size) == 0:
            return True
    return False


def expire_group(Partition partition not None, ExpiryRules rules not None, int64_t now_ms, group, subscribed=None,
                 ExpiryStop stop=None):
    """Deletes the expired positions of one group.  Returns the counters, as `expire` does.

    `subscribed` lists the topics to which the members of a stable consumer group are subscribed.  If it is None, the
    group has no members in memory, and its records decide its state.  The caller must prevent changes of the group
    during the call.

    Raises GroupError, TopicError, and the errors of `expire`.
    """
    cdef ol_retention_options options
    cdef ol_retention_report report
    cdef ol_error error
    cdef ol_slice name
    cdef live_group live
    cdef ol_group_state port
    cdef size_t index
    # Members may send any bytes, but no commit is for a topic without a name.
    cdef list topics = [topic for topic in subscribed or () if topic]
    _set_options(&options, rules, now_ms, stop)
    take_name(group, NAME_GROUP, &name)
    live.count = <size_t>len(topics)
    live.topics = <ol_slice *>calloc(live.count + 1, sizeof(ol_slice))
    if live.topics == NULL:
        raise MemoryError()
    try:
        for index in range(live.count):
            take_name(topics[index], NAME_TOPIC, &live.topics[index])
        if subscribed is not None:
            port.view, port.is_subscribed, port.release, port.context = _live_view, _live_reads, NULL, &live
            options.groups = &port
        partition.enter()
        try:
            with nogil:
                check(ol_retention_expire_group(partition.handle, &options, name, &report, &error), &error)
        finally:
            partition.leave()
    finally:
        free(live.topics)
    return _report_of(&report)


@cython.final
cdef class ExpiringRows:
    """Collects the expiring positions of several partitions; `to_arrow` makes a table of them.

    One thread at a time may use the object.
    """

    cdef ol_expiring_rows rows

    def __cinit__(self):
        memset(&self.rows, 0, sizeof(self.rows))

    def __dealloc__(self):
        ol_expiring_rows_free(&self.rows)

    def __len__(self):
        return self.rows.count

    def add(self, Partition partition not None, ExpiryRules rules not None, int64_t until_ms, ExpiryStop stop=None):
        """Adds the positions of a partition that will have expired at a given time.  Writes nothing to the log.

        Returns the counters.
        """
        cdef ol_retention_options options
        cdef ol_retention_report report
        cdef ol_error error
        _set_options(&options, rules, until_ms, stop)
        partition.enter()
        try:
            with nogil:
                check(
                    ol_retention_preview(partition.handle, &options, partition.number, &self.rows, &report, &error), &error
                )
        finally:
            partition.leave()
        return _report_of(&report)

    def groups(self):
        """Returns the names of the groups that have expiring positions."""
        return _names(&self.rows.group_names)

    def to_arrow(self, list rule_names not None):
        """Returns a table with the schema `expiring_schema`.

        `rule_names` lists the names of the rules, in the order of the rules.
        """
        import numpy
        import pyarrow

        cdef object schema = expiring_schema()
        if self.rows.count == 0:
            return schema.empty_table()
        size = self.rows.count * sizeof(ol_expiring_row)
        memory = PyMemoryView_FromMemory(<char *>self.rows.rows, <Py_ssize_t>size, PyBUF_READ)
        rows = numpy.frombuffer(memory, dtype=_ROW)
        is_group = rows["topic"] < 0
        columns = {
            "group": _named(pyarrow, rows["group"], None, _names(&self.rows.group_names)),
            "topic": _named(pyarrow, rows["topic"], is_group, _names(&self.rows.topic_names)),
            "rule": _named(pyarrow, rows["rule"], rows["rule"] < 0, rule_names),
            "reason": _named(pyarrow, rows["reason"], None, list(REASONS)),
        }
        absent = {
            "partition": is_group,
            "offset": is_group,
            "log_offset": is_group,
            "expires_at": is_group & (rows["expires_at"] < 0),
            "counted_from": is_group & (rows["counted_from"] < 0),
        }
        for field in schema:
            if field.name not in columns:
                columns[field.name] = pyarrow.array(rows[field.name], field.type, mask=absent.get(field.name))
        return pyarrow.table([columns[field.name] for field in schema], schema=schema)


cdef object _named(object pyarrow, object numbers, object absent, list names):
    indices = pyarrow.array(numbers, pyarrow.int32(), mask=absent)
    return pyarrow.DictionaryArray.from_arrays(indices, pyarrow.array(names, pyarrow.string()))


cdef list _names(const ol_string_dictionary *dictionary):
    cdef size_t index
    cdef ol_slice name
    cdef list names = []
    for index in range(dictionary.count):
        name = ol_string_dictionary_get(dictionary, index)
        names.append(text_of(name.data, name.size))
    return names


def expiring_schema():
    """Returns the Arrow schema of expiring positions."""
    import pyarrow

    name = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    return pyarrow.schema([
        ("group", name),
        ("topic", name),
        ("partition", pyarrow.int32()),
        ("expires_at", pyarrow.int64()),
        ("reason", name),
        ("counted_from", pyarrow.int64()),
        ("retention_ms", pyarrow.int64()),
        ("rule", name),
        ("offset", pyarrow.int64()),
        ("log_partition", pyarrow.int32()),
        ("log_offset", pyarrow.int64()),
    ])
