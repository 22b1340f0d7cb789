cimport cython
from libc.stddef cimport size_t

from offsetlog._native.csrc cimport ol_record_block

# A block of rows whose memory Arrow arrays can use without a copy.  The arrays keep the block alive.
@cython.final
cdef class RowBlock:
    cdef ol_record_block rows

# Creates blocks for the columns of a view, and makes Arrow batches from them.  One thread.
@cython.final
cdef class RowBlocks:
    cdef str view
    cdef tuple columns
    cdef object schema
    cdef list pool

    # Returns an empty block; reuses the memory of a block that no array borrows any more.
    cdef RowBlock take(self, size_t rows)
    cdef object batch_of(self, RowBlock block)
