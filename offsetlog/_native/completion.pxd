# An answer that comes once.  The GIL guards it: between a look at `finished` and what follows from it no Python code runs,
# and nothing is allocated, since a garbage collection runs code of others.
cdef class Completion:
    cdef bint finished
    cdef object result_given
    cdef object failure
    cdef list callbacks             # None: nobody
    cdef list futures               # of asyncio, of any loop; None: nobody
    cdef Py_ssize_t futures_checked # the length at which those that were cancelled are dropped
    cdef object waiting             # the Event of threads that wait, or None

    cdef object value(self)
    cdef bint take(self, object result, object failure) noexcept
    cdef int wait(self, object timeout) except -1
    cdef int drop_cancelled(self) except -1


# Has everybody called who waits for answers that were just taken: each event loop once.  A callback that raises is logged;
# an interrupt is raised once all were called.
cdef int release_all(list answered) except -1
