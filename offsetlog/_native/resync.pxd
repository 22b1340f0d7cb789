from libc.stdint cimport int64_t

from offsetlog._native.csrc cimport OL_OK, ol_batch, ol_batch_check_crc, ol_error, ol_scan, ol_scan_next, ol_scan_resync


# Goes behind bytes at `position` that are no batch, to the next whole one with a right CRC and an offset not below
# `offset_min`; OL_END when there is none.  A batch of which only the CRC is wrong still says where the next one is: that is
# tried first, since messages of magic 0 and 1 cannot be told by looking at any byte.
cdef inline int resync(ol_scan *scan, int64_t position, int64_t offset_min, ol_error *error) noexcept nogil:
    cdef ol_batch batch
    cdef ol_error ignored
    cdef int64_t next_position
    scan.position = position
    if ol_scan_next(scan, &batch, &ignored) == OL_OK:
        next_position = scan.position
        if ol_scan_next(scan, &batch, &ignored) == OL_OK and batch.base_offset >= offset_min:
            if ol_batch_check_crc(&batch, &ignored) == OL_OK:
                scan.position = next_position
                return OL_OK
    scan.position = position
    return ol_scan_resync(scan, position + 1, offset_min, 0x7FFFFFFFFFFFFFFF, &batch, error)
