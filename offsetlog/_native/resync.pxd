from libc.stdint cimport int64_t

from offsetlog._native.csrc cimport ol_batch, ol_error, ol_file_scan, ol_file_scan_resync


# Skips the bad batch, or the bytes that are not a batch, at `position`.  Moves to the next complete batch with a correct CRC
# and an offset not below `offset_min`; OL_END if there is none.  The log uses the same rule (log/file_scan.h), so that the
# command line and a load agree on the contents of a damaged file.
cdef inline int resync(ol_file_scan *scan, int64_t position, int64_t offset_min, ol_error *error) noexcept nogil:
    cdef ol_batch batch
    return ol_file_scan_resync(scan, position, offset_min, 0x7FFFFFFFFFFFFFFF, &batch, error)
