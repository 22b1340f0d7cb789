cimport cython

from offsetlog._native.csrc cimport ol_decompressor

# The port through which the engine inflates what others compressed.  Keep it alive for as long as something may read with it.
@cython.final
cdef class Decompressor:
    cdef ol_decompressor port
    cdef dict _outputs
