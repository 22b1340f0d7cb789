"""Commits Arrow columns, plain or in a transaction, without creating an object for each row.

Consecutive rows that have the same group and topic form a run.  Every distinct group is numbered and hashed once.  Two
counting sorts order the runs by log partition and group.  The groups of a log partition are then written whole, in
pieces that fit the processor's cache.
"""

import os
from threading import Lock

from libc.stddef cimport size_t
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint32_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memset

from offsetlog._native.arrow_columns cimport (
    batch_columns,
    is_null,
    place_of,
    string_at,
    string_column,
    table_from,
    take_columns,
)
from offsetlog._native.store_core cimport StoreCore
from offsetlog._native.csrc cimport (
    OL_OK,
    OL_STRING_SIZE_MAX,
    c_bool,
    ol_commit_result,
    ol_string_dictionary,
    ol_string_dictionary_free,
    ol_string_dictionary_get,
    ol_string_dictionary_number,
    ol_error,
    ol_partition_commit_rows,
    ol_partition_for,
    ol_position_row,
    ol_preallocator_kick,
    ol_row_run,
    ol_slice,
    ol_slice_equal,
    ol_slice_of,
    ol_utf16_units,
)
from offsetlog._native.partition cimport Partition
from offsetlog._native.status cimport check

from offsetlog._native.tickets import check_durability
from offsetlog.errors import (
    ClosedError,
    GroupError,
    InvalidArgumentError,
    MetadataTooLargeError,
    OffsetError,
    PartitionError,
    ReadOnlyError,
    StringTooLongError,
    TopicError,
)

# Rows of one piece: their items and the engine's plan for them stay in the second-level cache.
cdef size_t PIECE_ROWS = 4096


cdef enum flaw:
    FLAW_NONE
    FLAW_MEMORY
    FLAW_GROUP_TEXT
    FLAW_GROUP_SIZE
    FLAW_TOPIC_EMPTY
    FLAW_TOPIC_TEXT
    FLAW_TOPIC_SIZE
    FLAW_PARTITION
    FLAW_OFFSET
    FLAW_LEADER_EPOCH
    FLAW_COMMIT_TIMESTAMP
    FLAW_METADATA_TEXT
    FLAW_METADATA_SIZE
    FLAW_METADATA_UNITS

FLAWS = {
    FLAW_GROUP_TEXT: (GroupError, "the group is not UTF-8"),
    FLAW_GROUP_SIZE: (StringTooLongError, "the group has more than 32767 bytes of UTF-8"),
    FLAW_TOPIC_EMPTY: (TopicError, "the topic must not be empty"),
    FLAW_TOPIC_TEXT: (TopicError, "the topic is not UTF-8"),
    FLAW_TOPIC_SIZE: (StringTooLongError, "the topic has more than 32767 bytes of UTF-8"),
    FLAW_PARTITION: (PartitionError, "the partition is negative"),
    FLAW_OFFSET: (OffsetError, "the offset is negative"),
    FLAW_LEADER_EPOCH: (InvalidArgumentError, "the leader epoch is below -1"),
    FLAW_COMMIT_TIMESTAMP: (InvalidArgumentError, "the commit timestamp is below -1"),
    FLAW_METADATA_TEXT: (InvalidArgumentError, "the metadata is not UTF-8"),
    FLAW_METADATA_SIZE: (StringTooLongError, "the metadata has more than 32767 bytes of UTF-8"),
    FLAW_METADATA_UNITS: (MetadataTooLargeError, "the metadata has more UTF-16 units than allowed"),
}


# ---------------------------------------------------------------------------------------------------- the order


cdef struct row_run:
    uint32_t first
    uint32_t count
    int32_t group
    ol_slice topic

# The working memory of a commit; all of it is freed together.
cdef struct order_plan:
    ol_string_dictionary groups
    row_run *runs
    size_t run_count
    size_t run_capacity
    int32_t *map                # from an index of the batch's dictionary to our group number, -1 if not seen
    int32_t *log_partition      # of each group
    uint32_t *group_rows        # of each group
    uint32_t *group_end         # of each group in `order`
    int32_t *sequence           # groups in the order in which they are written
    uint32_t *order             # runs in that order


cdef void free_plan(order_plan *plan) noexcept nogil:
    ol_string_dictionary_free(&plan.groups)
    free(plan.runs)
    free(plan.map)
    free(plan.log_partition)
    free(plan.group_rows)
    free(plan.group_end)
    free(plan.sequence)
    free(plan.order)


cdef flaw number_group(order_plan *plan, ol_slice name, int32_t *number) noexcept nogil:
    cdef ol_error error
    cdef c_bool valid = True
    cdef size_t before = plan.groups.count
    if name.size > OL_STRING_SIZE_MAX:
        return FLAW_GROUP_SIZE
    if ol_string_dictionary_number(&plan.groups, name, number, &error) != OL_OK:
        return FLAW_MEMORY
    if plan.groups.count != before:
        ol_utf16_units(name, &valid)
        if not valid:
            return FLAW_GROUP_TEXT
    return FLAW_NONE


cdef flaw number_group_at(order_plan *plan, const string_column *column, size_t row, int32_t *number) noexcept nogil:
    cdef int32_t place
    cdef flaw found
    if column.numbers == NULL:
        return number_group(plan, string_at(column, place_of(column, row)), number)
    place = column.numbers[row]
    if plan.map[place] < 0:
        found = number_group(plan, string_at(column, place), number)
        if found != FLAW_NONE:
            return found
        plan.map[place] = number[0]
    number[0] = plan.map[place]
    return FLAW_NONE


cdef inline bint repeats(const string_column *column, size_t row) noexcept nogil:
    # Returns whether a row, which is not the first, has the same string as the row before it.
    cdef int64_t place
    if column.numbers != NULL:
        return column.numbers[row] == column.numbers[row - 1]
    place = column.first + <int64_t>row
    return ol_slice_equal(string_at(column, place), string_at(column, place - 1))


cdef row_run *add_run(order_plan *plan) noexcept nogil:
    cdef row_run *moved
    if plan.run_count == plan.run_capacity:
        plan.run_capacity = 2 * plan.run_capacity if plan.run_capacity else 256
        moved = <row_run *>realloc(plan.runs, plan.run_capacity * sizeof(row_run))
        if moved == NULL:
            return NULL
        plan.runs = moved
    plan.run_count += 1
    return &plan.runs[plan.run_count - 1]


cdef flaw find_runs(order_plan *plan, const batch_columns *batch, size_t *row) noexcept nogil:
    cdef bint same_group = False
    cdef bint same_topic = False
    cdef int32_t group = -1
    cdef ol_slice topic = ol_slice_of(NULL, 0)
    cdef row_run *run = NULL
    cdef flaw found
    for row[0] in range(batch.rows):
        if row[0] > 0:
            same_group = repeats(&batch.group, row[0])
            same_topic = repeats(&batch.topic, row[0])
            if same_group and same_topic:
                run.count += 1
                continue
        if not same_group:
            found = number_group_at(plan, &batch.group, row[0], &group)
            if found != FLAW_NONE:
                return found
        if not same_topic:
            topic = string_at(&batch.topic, place_of(&batch.topic, row[0]))
            found = check_topic(topic)
            if found != FLAW_NONE:
                return found
        run = add_run(plan)
        if run == NULL:
            return FLAW_MEMORY
        run.first = <uint32_t>row[0]
        run.count = 1
        run.group = group
        run.topic = topic
    return FLAW_NONE


cdef flaw check_topic(ol_slice name) noexcept nogil:
    cdef c_bool valid = True
    if name.size == 0:
        return FLAW_TOPIC_EMPTY
    if name.size > OL_STRING_SIZE_MAX:
        return FLAW_TOPIC_SIZE
    ol_utf16_units(name, &valid)
    return FLAW_NONE if valid else FLAW_TOPIC_TEXT


cdef flaw check_metadata(ol_slice text, size_t units_max) noexcept nogil:
    cdef c_bool valid = True
    cdef size_t units
    if text.size > OL_STRING_SIZE_MAX:
        return FLAW_METADATA_SIZE
    units = ol_utf16_units(text, &valid)
    if not valid:
        return FLAW_METADATA_TEXT
    return FLAW_METADATA_UNITS if units > units_max else FLAW_NONE


cdef flaw check_integers(const batch_columns *batch, size_t *row) noexcept nogil:
    # One pass without a branch; rows are checked one by one only if one of them is invalid.
    cdef int32_t partitions = 0
    cdef int64_t offsets = 0
    cdef size_t at
    for at in range(batch.rows):
        partitions |= batch.partitions[at]
        offsets |= batch.offsets[at]
    if partitions < 0 or offsets < 0:
        for row[0] in range(batch.rows):
            if batch.partitions[row[0]] < 0:
                return FLAW_PARTITION
            if batch.offsets[row[0]] < 0:
                return FLAW_OFFSET
    if batch.leader_epochs != NULL:
        for row[0] in range(batch.rows):
            if batch.leader_epochs[row[0]] < -1:
                return FLAW_LEADER_EPOCH
    if batch.commit_timestamps != NULL:
        for row[0] in range(batch.rows):
            if batch.commit_timestamps[row[0]] < -1:
                return FLAW_COMMIT_TIMESTAMP
    return FLAW_NONE


cdef flaw check_rows(const batch_columns *batch, size_t units_max, size_t *row) noexcept nogil:
    cdef flaw found = check_integers(batch, row)
    if found != FLAW_NONE or not batch.has_metadata:
        return found
    for row[0] in range(batch.rows):
        if not is_null(&batch.metadata, row[0]):
            found = check_metadata(string_at(&batch.metadata, place_of(&batch.metadata, row[0])), units_max)
            if found != FLAW_NONE:
                return found
    return FLAW_NONE


cdef flaw sort_runs(order_plan *plan, int32_t partition_count) noexcept nogil:
    # Two counting sorts: groups by their log partition, then runs by their group.
    cdef size_t group_count = plan.groups.count
    cdef size_t at
    cdef int32_t group
    cdef uint32_t total = 0
    cdef uint32_t count
    cdef uint32_t *partition_start = <uint32_t *>calloc(<size_t>partition_count + 1, sizeof(uint32_t))
    plan.log_partition = <int32_t *>malloc((group_count + 1) * sizeof(int32_t))
    plan.group_rows = <uint32_t *>calloc(group_count + 1, sizeof(uint32_t))
    plan.group_end = <uint32_t *>calloc(group_count + 1, sizeof(uint32_t))
    plan.sequence = <int32_t *>malloc((group_count + 1) * sizeof(int32_t))
    plan.order = <uint32_t *>malloc((plan.run_count + 1) * sizeof(uint32_t))
    if (partition_start == NULL or plan.log_partition == NULL or plan.group_rows == NULL or plan.group_end == NULL
            or plan.sequence == NULL or plan.order == NULL):
        free(partition_start)
        return FLAW_MEMORY
    for at in range(group_count):
        plan.log_partition[at] = ol_partition_for(ol_string_dictionary_get(&plan.groups, at), partition_count)
        partition_start[plan.log_partition[at] + 1] += 1
    for at in range(<size_t>partition_count):
        partition_start[at + 1] += partition_start[at]
    for at in range(group_count):
        plan.sequence[partition_start[plan.log_partition[at]]] = <int32_t>at
        partition_start[plan.log_partition[at]] += 1
    free(partition_start)
    for at in range(plan.run_count):
        plan.group_end[plan.runs[at].group] += 1
        plan.group_rows[plan.runs[at].group] += plan.runs[at].count
    for at in range(group_count):
        group = plan.sequence[at]
        count = plan.group_end[group]
        plan.group_end[group] = total
        total += count
    for at in range(plan.run_count):
        group = plan.runs[at].group
        plan.order[plan.group_end[group]] = <uint32_t>at
        plan.group_end[group] += 1
    return FLAW_NONE


# ---------------------------------------------------------------------------------------------------- the pieces


# Rows and runs of one commit, in the form that the engine takes.
cdef struct piece:
    ol_position_row *rows
    ol_row_run *runs


cdef ol_position_row *fill_rows(ol_position_row *to, const batch_columns *batch, const row_run *run) noexcept nogil:
    cdef size_t row
    for row in range(run.first, run.first + run.count):
        to.partition = batch.partitions[row]
        to.value.offset = batch.offsets[row]
        to.value.commit_timestamp = batch.commit_timestamps[row] if batch.commit_timestamps != NULL else -1
        to.value.expire_timestamp = -1
        to.value.leader_epoch = batch.leader_epochs[row] if batch.leader_epochs != NULL else -1
        to.value.metadata = ol_slice_of(b"", 0)
        if batch.has_metadata and not is_null(&batch.metadata, row):
            to.value.metadata = string_at(&batch.metadata, place_of(&batch.metadata, row))
        to.value.topic_id = NULL
        to += 1
    return to


cdef size_t fill_piece(piece *to, const batch_columns *batch, const order_plan *plan, size_t start, size_t end) noexcept nogil:
    # Collects the rows of the runs [start, end) of the order; returns their number.
    cdef ol_position_row *row = to.rows
    cdef ol_row_run *out = to.runs
    cdef const row_run *run
    cdef const row_run *previous = NULL
    cdef ol_slice group = ol_slice_of(NULL, 0)
    cdef size_t at
    for at in range(start, end):
        run = &plan.runs[plan.order[at]]
        if previous == NULL or previous.group != run.group:
            group = ol_string_dictionary_get(&plan.groups, <size_t>run.group)
        previous = run
        out.group = group
        out.topic = run.topic
        out.first_row = <size_t>(row - to.rows)
        out += 1
        row = fill_rows(row, batch, run)
    return <size_t>(row - to.rows)


cdef size_t end_of_piece(const order_plan *plan, size_t *group, size_t group_end) noexcept nogil:
    # Selects whole groups, at least one.  Moves *group past the last of them; returns the index at which their runs end.
    cdef size_t rows = 0
    cdef size_t end = 0
    cdef int32_t number
    while group[0] < group_end:
        number = plan.sequence[group[0]]
        if rows > 0 and rows + plan.group_rows[number] > PIECE_ROWS:
            break
        rows += plan.group_rows[number]
        end = plan.group_end[number]
        group[0] += 1
    return end


cdef size_t largest_piece(const order_plan *plan) noexcept nogil:
    cdef size_t largest = PIECE_ROWS
    cdef size_t group
    for group in range(plan.groups.count):
        if plan.group_rows[group] > largest:
            largest = plan.group_rows[group]
    return largest


# The producer of the transaction to which the rows are written; id -1 for plain rows.
cdef struct producer:
    int64_t id
    int16_t epoch


cdef class _Order:
    """The columns of a batch, and the order in which their rows are written.

    All shares of the batch use the same object.
    """

    cdef batch_columns columns
    cdef order_plan plan
    cdef list kept              # keeps the memory that the columns borrow
    cdef bint stopped           # shares stop before their next piece, and no more begin

    def __cinit__(self):
        memset(&self.columns, 0, sizeof(self.columns))
        memset(&self.plan, 0, sizeof(self.plan))
        self.kept = []
        self.stopped = False

    def __dealloc__(self):
        free_plan(&self.plan)


cdef class _Share:
    """The groups of a batch that belong to one log partition.  Any thread may call the share, which writes its groups.

    Threads may write the shares of one batch in parallel, because each share has its own rows and log partition, and no
    share changes the order.
    """

    cdef StoreCore core
    cdef producer owner
    cdef _Order order
    cdef object busy                # held while the share writes
    cdef const order_plan *plan     # of the batch's order
    cdef int32_t number
    cdef size_t group           # index in the sequence of the next one
    cdef size_t group_end
    cdef size_t run             # index in the order of the next one
    cdef size_t rows            # how many were written
    cdef ol_commit_result result

    def __call__(self):
        with self.busy:
            if not self.order.stopped:
                self.write_rows()

    cdef object write_rows(self):
        cdef Partition partition = self.core.used(self.number)
        cdef piece scratch
        if partition is None:
            raise ClosedError("the store is closed")
        scratch.rows = <ol_position_row *>malloc(largest_piece(self.plan) * sizeof(ol_position_row))
        scratch.runs = <ol_row_run *>malloc(min(largest_piece(self.plan), self.plan.run_count) * sizeof(ol_row_run))
        try:
            if scratch.rows == NULL or scratch.runs == NULL:
                raise MemoryError("out of memory for the rows that are written together")
            partition.enter()
            try:
                with nogil:
                    self.write(partition, &scratch)
            finally:
                partition.leave()
        finally:
            free(scratch.rows)
            free(scratch.runs)

    cdef int write(self, Partition partition, piece *scratch) except -1 nogil:
        cdef ol_error error
        cdef size_t group
        cdef size_t end
        cdef size_t rows
        while self.group < self.group_end and not self.order.stopped:
            group = self.group
            end = end_of_piece(self.plan, &group, self.group_end)
            rows = fill_piece(scratch, &self.order.columns, self.plan, self.run, end)
            check(ol_partition_commit_rows(partition.handle, scratch.runs, end - self.run, scratch.rows, rows, self.owner.id,
                                           self.owner.epoch, &self.result, &error), &error)
            self.group = group
            self.run = end
            self.rows += rows
        return 0


cdef object raise_flaw(flaw found, size_t row):
    if found == FLAW_MEMORY:
        raise MemoryError("out of memory for sorting the rows")
    kind, text = FLAWS[found]
    raise kind(f"row {row}: {text}", item=row)


def commit_arrow(StoreCore core not None, batch, *, durability=None):
    """Commits the rows of a record batch or table; see OffsetStore.commit_arrow."""
    cdef producer nobody
    nobody.id = nobody.epoch = -1
    check_durability(durability)
    waits = []
    rows = write_batch(core, batch, nobody, None, None, waits)
    core.wait_durable_all(waits, durability)
    return rows


def write_in_transaction(StoreCore core not None, batch, int64_t producer_id, int16_t producer_epoch, admit not None, *, pool=None):
    """Writes the rows of a record batch or table into a transaction of the producer in each log partition concerned.

    The rows take effect when the caller commits these transactions with `Partition.end_transaction`.  If several rows
    have the same key, the last one counts.

    Args:
        core: the core of a store that is open for writing.
        batch: columns as in OffsetStore.commit_arrow.
        producer_id: at least 0.
        producer_epoch: at least 0.
        admit: a function that is called with the number of each log partition that has rows, before the rows are
            written.  If it returns False, the call skips the rows of that log partition.
        pool: a concurrent.futures.Executor, whose threads write to several log partitions in parallel.  If it is None,
            the call writes to one log partition after the other.

    Returns:
        The number of rows that were written.

    Raises:
        InvalidArgumentError: nothing was written.
        StateError, StorageError: as in OffsetStore.commit_arrow.  The rows that were written before the error stay in
            the open transactions.
    """
    cdef producer owner
    if producer_id < 0 or producer_epoch < 0:
        raise InvalidArgumentError("a transaction needs a producer id and an epoch of at least 0")
    owner.id = producer_id
    owner.epoch = producer_epoch
    return write_batch(core, batch, owner, admit, pool, [])


cdef object write_batch(StoreCore core, batch, producer owner, object admit, object pool, list waits):
    # Sorts the rows and writes them; returns the number of rows written.
    import pyarrow

    cdef _Order order = _Order.__new__(_Order)
    cdef order_plan *plan = &order.plan
    cdef size_t distinct = 0
    cdef size_t row = 0
    cdef flaw found
    table = table_from(pyarrow, batch)
    if core.closed:
        core.refuse_closed()
    if core.read_only:
        raise ReadOnlyError("the store is open read-only")
    cdef int32_t count = core.count
    if table.num_rows == 0:
        return 0
    if table.num_rows > INT32_MAX:
        raise InvalidArgumentError(f"a call takes at most 2**31 - 1 rows, not {table.num_rows}")
    order.columns.rows = <size_t>table.num_rows
    take_columns(pyarrow, table, &order.columns, order.kept, &distinct)
    plan.groups.seed = int.from_bytes(os.urandom(8), "little")
    plan.map = <int32_t *>malloc((distinct + 1) * sizeof(int32_t))
    if plan.map == NULL:
        raise MemoryError()
    memset(plan.map, 0xFF, (distinct + 1) * sizeof(int32_t))
    with nogil:
        found = check_rows(&order.columns, core.metadata_units_max, &row)
        if found == FLAW_NONE:
            found = find_runs(plan, &order.columns, &row)
        if found == FLAW_NONE:
            found = sort_runs(plan, count)
    if found != FLAW_NONE:
        raise_flaw(found, row)
    return write_all(core, owner, order, admit, pool, waits)


cdef list shares_of(StoreCore core, producer owner, _Order order, object admit):
    # In the order of the sequence; log partitions that are not admitted get no share.
    cdef const order_plan *plan = &order.plan
    cdef list shares = []
    cdef _Share share
    cdef size_t group = 0
    cdef size_t run = 0
    cdef int32_t number
    while group < plan.groups.count:
        share = _Share.__new__(_Share)
        number = plan.log_partition[plan.sequence[group]]
        share.core = core
        share.owner = owner
        share.order = order
        share.busy = Lock()
        share.plan = plan
        share.number = number
        share.group = group
        share.run = run
        while group < plan.groups.count and plan.log_partition[plan.sequence[group]] == number:
            group += 1
        share.group_end = group
        run = plan.group_end[plan.sequence[group - 1]]
        if admit is None or admit(number):
            shares.append(share)
    return shares


cdef object write_all(StoreCore core, producer owner, _Order order, object admit, object pool, list waits):
    cdef size_t group
    cdef size_t rows = 0
    cdef _Share share
    # Every directory is created before the first row is written.
    for group in range(order.plan.groups.count):
        core.ready(order.plan.log_partition[group])
    # This many rows need new pages, so the thread that extends files ahead of use is woken if it sleeps.
    if core.preparer != NULL:
        ol_preallocator_kick(core.preparer)
    shares = shares_of(core, owner, order, admit)
    try:
        if pool is None or len(shares) < 2 or order.columns.rows < PIECE_ROWS:
            for share in shares:
                share()
        else:
            run_all(pool, shares, order)
    except Exception as failure:
        if owner.id < 0:
            rows = sum([(<_Share>each).rows for each in shares])
            failure.add_note(
                f"{rows} of {order.columns.rows} rows were written; each group was written completely or not at all"
            )
        raise
    for share in shares:
        waits.append((share.number, share.result.end_offset, share.result.term))
        rows += share.rows
    return rows


cdef object run_all(object pool, list shares, _Order order):
    # When this returns or raises, every share has ended or will never begin, because the caller then ends the transactions of
    # its rows.  An interrupt may come while a share is being submitted; the pool then has the share, and this function has no
    # future of it.
    from concurrent.futures import wait

    futures = []
    try:
        for share in shares[1:]:
            futures.append(pool.submit(share))
        shares[0]()
        wait(futures)
        for future in futures:
            future.result()
    except BaseException:
        order.stopped = True
        wait_for_all(shares)
        raise


cdef object wait_for_all(list shares):
    # Further interrupts are ignored, because the first one is being raised.
    cdef _Share share
    for share in shares:
        while True:
            try:
                share.busy.acquire()
                break
            except BaseException:
                continue
        share.busy.release()
