"""Converts a status of the C code to a Python exception (`offsetlog.errors`).  No other module does this."""

from cpython.exc cimport PyErr_Occurred
from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int64_t

from offsetlog._native.csrc cimport (
    OL_WOULD_BLOCK,
    ol_error,
    ol_error_at,
    ol_fail,
    ol_status_name,
)

from offsetlog.error_status import from_status


# Interrupts and exits that were raised inside callbacks, by the thread in which they occurred.
cdef dict _interrupts = {}


cdef void keep_interrupt(object failure) noexcept:
    if not isinstance(failure, Exception):
        _interrupts[PyThread_get_thread_ident()] = failure


cdef int raise_interrupt() except -1:
    if not _interrupts:
        return 0
    failure = _interrupts.pop(PyThread_get_thread_ident(), None)
    if failure is not None:
        raise failure
    return 0


cdef int check(int status, ol_error *error) except -1 nogil:
    # OL_OK, OL_END and OL_WOULD_BLOCK are not failures; the numbers of failures start after them.
    if 0 <= status <= OL_WOULD_BLOCK:
        return status
    with gil:
        return _raise(status, error)


cdef int _raise(int status, ol_error *error) except -1:
    # A callback of ours (such as a decompressor) has already set a more exact error.
    if PyErr_Occurred() != NULL:
        return -1
    raise_interrupt()
    if error.status != status:
        # The status has no filled-in error, so nothing in the error belongs to it.
        raise from_status(status, ol_status_name(status).decode())
    # A path that is too long was truncated at its front, perhaps within a character, but it must still decode.
    path = (<bytes>error.path).decode("utf-8", "surrogateescape")
    raise from_status(
        status,
        (<bytes>error.reason).decode("utf-8", "replace") or ol_status_name(status).decode(),
        path=path or None,
        position=None if error.position < 0 else error.position,
        offset=None if error.offset < 0 else error.offset,
        errno=error.sys_errno or None,
        item=None if error.item < 0 else error.item,
    )


def status_name(int status):
    """Returns the name of an ol_status, "unknown status" for any other number."""
    return ol_status_name(status).decode()


def provoke(
    int status, str reason, str path="", int64_t position=-1, int64_t offset=-1, int64_t item=-1, int errno=0
):
    """For tests of this module: raises the error of a C call that fails with `status` while it does not hold the GIL.

    Returns the status if it is not a failure.
    """
    cdef ol_error error
    cdef bytes reason_bytes = reason.encode("utf-8", "surrogatepass")
    cdef bytes path_bytes = path.encode("utf-8", "surrogateescape")
    cdef const char *reason_text = reason_bytes
    cdef const char *path_text = path_bytes
    cdef int result
    with nogil:
        if status != 0:
            ol_fail(&error, status, "%s", reason_text)
            ol_error_at(&error, path_text, position)
            error.offset = offset
            error.item = item
            error.sys_errno = errno
        result = check(status, &error)
    return result
