# An answer that is given once.  The GIL guards it: between reading `finished` and acting on it, no Python code runs and
# nothing is allocated, because a garbage collection may run any code.
cdef class Completion:
    cdef bint finished
    cdef object result_given
    cdef object failure
    cdef list callbacks             # None: no callbacks
    cdef list futures               # of asyncio, of any loop; None: no futures
    cdef Py_ssize_t futures_checked # the length at which cancelled ones are dropped
    cdef object waiting             # the Event of waiting threads, or None

    cdef object value(self)
    cdef bint take(self, object result, object failure) noexcept
    cdef int wait(self, object timeout) except -1
    cdef int drop_cancelled(self) except -1


# Calls the callbacks and completes the futures of answers that were just given, waking each event loop once.  A callback's
# exception is logged; an interrupt is raised after all of them.
cdef int release_all(list answered) except -1
