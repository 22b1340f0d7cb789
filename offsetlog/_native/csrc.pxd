# csrc: the one place where the C engine is declared to Cython; nothing else may say "cdef extern from" one of our headers.
# The headers in csrc/ are the contract; what stands here repeats their names and types, and never their meaning.

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "stdbool.h" nogil:
    # Cython's bint is an int; a pointer to C's bool has to be a pointer to bool.
    ctypedef bint c_bool "bool"


cdef extern from "ol_base.h" nogil:
    ctypedef struct ol_slice:
        const uint8_t *data
        size_t size

    ol_slice ol_slice_of(const void *data, size_t size) noexcept
    ol_slice ol_slice_null() noexcept


cdef extern from "ol_status.h" nogil:
    enum:
        OL_OK
        OL_END
        OL_WOULD_BLOCK
        OL_NO_MEMORY
        OL_IO
        OL_DISK_FULL
        OL_NO_SUCH_FILE
        OL_LOCKED
        OL_CORRUPT
        OL_TORN
        OL_UNSUPPORTED
        OL_LIMIT
        OL_INVALID
        OL_TOO_LARGE
        OL_OUT_OF_RANGE
        OL_CLOSED
        OL_READ_ONLY
        OL_FAILED
        OL_LOADING
        OL_NOT_COORDINATOR
        OL_CONDITION
        OL_REWIND
        OL_FENCED
        OL_TRANSACTION
        OL_TIMED_OUT
        OL_CRASHED

    ctypedef struct ol_error:
        int status
        int sys_errno
        int64_t position
        int64_t offset
        int64_t item
        # Arrays in C; as pointers here, so that their sizes are not said twice.
        char *path
        char *reason

    void ol_error_clear(ol_error *error) noexcept
    int ol_fail(ol_error *error, int status, const char *format, ...) noexcept
    int ol_fail_errno(ol_error *error, int sys_errno, const char *operation, const char *path) noexcept
    int ol_error_at(ol_error *error, const char *path, int64_t position) noexcept
    const char *ol_status_name(int status) noexcept


cdef extern from "ol_hash.h" nogil:
    ctypedef struct ol_hash128:
        uint64_t low
        uint64_t high

    ol_hash128 ol_xxh3_128(const void *data, size_t size) noexcept
    ol_hash128 ol_hash128_add(ol_hash128 a, ol_hash128 b) noexcept
    ol_hash128 ol_hash128_subtract(ol_hash128 a, ol_hash128 b) noexcept
    int32_t ol_java_hash(ol_slice utf8) noexcept
    int32_t ol_partition_for(ol_slice group, int32_t count) noexcept
    size_t ol_utf16_units(ol_slice utf8, c_bool *valid) noexcept
    uint64_t ol_hash64(const void *data, size_t size, uint64_t seed) noexcept
    uint64_t ol_hash64_mix(uint64_t a, uint64_t b) noexcept


cdef extern from "ol_crc32c.h" nogil:
    uint32_t ol_crc32c(const void *data, size_t size) noexcept
    uint32_t ol_crc32c_extend(uint32_t crc, const void *data, size_t size) noexcept
    const char *ol_crc32c_implementation() noexcept
    uint32_t ol_crc32(const void *data, size_t size) noexcept
