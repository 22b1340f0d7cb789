from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint64_t

from offsetlog._native.csrc cimport (
    atomic_flag_value,
    ol_batch,
    ol_error,
    ol_producers,
    ol_producers_change,
    ol_file_scan,
    ol_state,
    ol_state_share,
)
from offsetlog._native.decompress cimport Decompressor
from offsetlog._native.files cimport FileSystem
from offsetlog._native.log_view cimport LogView
from offsetlog._native.snapshot cimport StopFlag

# Must match `BATCH_FIELDS`.
cdef struct batch_row:
    int64_t position
    int64_t base_offset
    int64_t last_offset
    int64_t max_timestamp
    int32_t leader_epoch
    int32_t magic

# The memory that the states of several replays use.  Any thread may use this object.
cdef class MemoryAccount:
    cdef int64_t taken
    cdef readonly int64_t bytes_max

# The state after a replay of files.  One thread at a time.
cdef class Replay:
    cdef ol_state state
    cdef ol_producers producers
    cdef FileSystem fs
    cdef Decompressor decompressor
    cdef LogView view
    cdef StopFlag stop_flag
    cdef const atomic_flag_value *stop_asked
    cdef readonly int64_t next_offset
    cdef readonly int64_t batches
    cdef readonly int64_t records
    cdef readonly int64_t records_below     # the number of these records below `until`, which may be inside a batch
    cdef list refused
    cdef bytes path
    cdef int64_t position
    cdef int64_t since
    cdef int64_t segment_limit
    cdef ol_state_share share
    cdef batch_row *rows
    cdef size_t row_count
    cdef size_t row_capacity
    cdef int64_t first_offset           # the first offset of the first batch that was applied
    cdef MemoryAccount account          # None: no limit
    cdef int64_t accounted              # how many bytes of the account this state uses
    cdef int64_t looked_records         # `records` when the memory was last measured
    cdef uint64_t bytes_since_look
    cdef bint is_joined

    cdef int open_scan(self, ol_file_scan *scan, path, int64_t position) except -1
    cdef int add_row(self, const ol_batch *batch, int64_t position, ol_error *error) noexcept nogil
    cdef int apply_batch(self, const ol_batch *batch, ol_producers_change *change, ol_error *error) noexcept nogil
    cdef int check_memory(self, ol_error *error) noexcept nogil
    cdef int look_at_times(self, const ol_batch *batch, ol_error *error) noexcept nogil
    cdef int require_producers(self) except -1
    cdef int count_records(self, const ol_batch *batch, ol_error *error) noexcept nogil
    cdef int walk(self, ol_file_scan *scan, int64_t stop, int64_t until, bint keeps_rows, ol_producers_change *change,
                  ol_error *error) noexcept nogil
    cdef int go_on(self, ol_file_scan *scan, list stops, int64_t until, bint keeps_rows, bint unreadable, dict found) except -1
