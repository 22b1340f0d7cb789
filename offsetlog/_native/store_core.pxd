cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t, uint64_t

from offsetlog._native.buffers cimport item_array
from offsetlog._native.csrc cimport (
    ol_commit_result,
    ol_error,
    ol_item,
    ol_partition,
    ol_partition_for,
    ol_preallocator,
    ol_slice,
)
from offsetlog._native.partition cimport Partition
from offsetlog._native.tickets cimport Flushes, durability_kind

# While the GIL is held, only small batches (4 KiB) are written, because a try with a larger batch would plan it twice.
cdef enum:
    TRY_ITEMS_MAX = 24

# The hot path of a store: its partitions by number, and the calls that commit to and read from them.
@cython.final
cdef class StoreCore:
    cdef ol_partition **slots       # NULL for a partition without a directory, and for all once the store is closed
    cdef int32_t slot_count         # the count; if that is unknown, the highest number here + 1
    cdef readonly bint is_count_known
    cdef list partitions            # the partitions that the slots point to
    cdef object owner               # an OpenPartitions, which opened the partitions and closes them
    cdef public object closer       # a StoreCloser, called when no code can reach the core any more
    cdef Flushes flushes
    cdef durability_kind durability
    cdef size_t metadata_units_max
    cdef item_array scratch         # taken away while a call fills it
    cdef ol_preallocator *preparer
    cdef readonly bint read_only
    cdef readonly bint closed
    cdef bint forked
    cdef object __weakref__

    cdef int refuse_closed(self) except -1
    cdef int check_count_known(self) except -1
    cdef int check_number(self, int32_t number) except -1
    cdef ol_partition *open_slot(self, int32_t number) except NULL
    cdef Partition used(self, int32_t number)

    # Loads a partition before the others, if it is not loaded yet, and attaches it.
    cdef inline int load_now(self, int32_t number) except -1:
        partition = self.owner.loaded(number)
        if partition is not None and self.slots[number] == NULL:
            self.attach(partition)
        return 0

    cdef inline int32_t number_for(self, ol_slice group) except -1:
        if not self.is_count_known:
            self.check_count_known()
        return ol_partition_for(group, self.slot_count)

    cdef int write(self, int32_t number, const ol_item *items, size_t count, int64_t producer_id, int16_t producer_epoch,
                   ol_commit_result *result, ol_error *error) except -1
    cdef int wait(self, int32_t number, int64_t end_offset, uint64_t term, durability_kind durability) except -1
    cdef bint commit_plain(self, ol_slice group, int32_t number, object offsets, ol_commit_result *result,
                           size_t *taken) except -1
    cdef int64_t commit_dictionary(self, group, object given, object given_expected, bint monotonic, object generation,
                                   int64_t producer_id, int16_t producer_epoch, int32_t *number, uint64_t *term,
                                   size_t *taken) except -1
    cdef object delete_group(self, group, durability)
    cdef object fetch_one_waiting(self, int32_t number, ol_slice group, ol_slice topic, int32_t partition)
    cdef item_array take_scratch(self, size_t count) except *
    cdef void give_scratch(self, item_array *array) noexcept


# Commits from dictionaries; errors name the key concerned.  Returns the end offset to wait for.
cdef int64_t commit_named(StoreCore core, object group, object offsets, object expected, bint monotonic, object generation,
                          int64_t producer_id, int16_t producer_epoch, int32_t *number, uint64_t *term) except -1
