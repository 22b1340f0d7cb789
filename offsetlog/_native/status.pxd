from offsetlog._native.csrc cimport ol_error

# Turns what a C call returned into an exception.  Call it around every ol_* function that returns a status:
#
#     cdef ol_error error
#     with nogil:
#         check(ol_something(..., &error), &error)
#
# Returns OL_OK, OL_END or OL_WOULD_BLOCK, which are results.  Takes the GIL only to raise.
cdef int check(int status, ol_error *error) except -1 nogil
