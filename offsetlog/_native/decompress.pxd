cimport cython

from offsetlog._native.csrc cimport ol_decompressor

# The port through which the engine inflates compressed batches.  The port must stay alive as long as any reader may use it.
@cython.final
cdef class Decompressor:
    cdef ol_decompressor port
    cdef dict _outputs
