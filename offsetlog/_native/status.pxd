from offsetlog._native.csrc cimport ol_error

# Turns the result of a C call into an exception.  Call this around every ol_* function that returns a status:
#
#     cdef ol_error error
#     with nogil:
#         check(ol_something(..., &error), &error)
#
# Returns OL_OK, OL_END or OL_WOULD_BLOCK, which are not failures.  Takes the GIL only to raise.
cdef int check(int status, ol_error *error) except -1 nogil

# For callbacks, through which no exception can pass.  An interrupt or exit inside a callback is kept.  The `check` around the
# C call raises it in place of the failure, or `raise_interrupt` if the callback cannot fail.
cdef void keep_interrupt(object failure) noexcept
cdef int raise_interrupt() except -1
