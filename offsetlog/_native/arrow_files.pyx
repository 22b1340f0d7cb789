"""Lets the engine read files of a pyarrow file system, such as S3, HDFS or any other that Spark's executors share."""

import os
import re

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stddef cimport size_t
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from offsetlog._native.csrc cimport (
    OL_IO,
    OL_NO_MEMORY,
    OL_NO_SUCH_FILE,
    OL_OK,
    OL_READ_ONLY,
    OL_OPEN_READ,
    c_bool,
    ol_error,
    ol_error_at,
    ol_fail,
    ol_file,
    ol_fs,
    ol_open_mode,
)
from offsetlog._native.files cimport FileSystem
from offsetlog._native.status cimport keep_interrupt

#: How many bytes are read at a time.  A request to an object store takes tens of milliseconds even if it is small.
READ_AHEAD_BYTES = 8 << 20

#: The signature of a request in a URL, which appears in Azure's errors.
_SIGNED = re.compile(r"(?i)\b(sig|signature|x-amz-(?:signature|credential|security-token))=[^&\s'\"]+")


def failure_text(failure):
    """Returns the error message of a file system as one line, with the signatures in its URLs removed."""
    lines = (line.strip() for line in (str(failure) or type(failure).__name__).splitlines())
    return _SIGNED.sub(r"\1=***", " ".join(line for line in lines if line))


cdef struct arrow_port:
    ol_fs port                  # must be first: the engine holds a pointer to it
    PyObject *files             # the pyarrow.fs.FileSystem, which the ArrowFileSystem keeps


cdef class _OpenFile:
    # An open file, with the block that was read last.  One thread at a time.
    cdef object file
    cdef str path
    cdef int64_t size
    cdef bytes block
    cdef int64_t block_position

    cdef size_t take(self, int64_t position, char *data, size_t size) except? <size_t>-1:
        cdef int64_t start
        cdef size_t done = 0
        cdef size_t count
        while done < size and position < self.size:
            start = position - self.block_position
            if start < 0 or start >= len(self.block):
                wanted = max(<int64_t>(size - done), <int64_t>READ_AHEAD_BYTES)
                self.block = self.file.read_at(min(wanted, self.size - position), position)
                self.block_position = position
                start = 0
                if not self.block:
                    break
            count = min(size - done, <size_t>(len(self.block) - start))
            memcpy(data + done, PyBytes_AS_STRING(self.block) + start, count)
            done += count
            position += <int64_t>count
        return done


cdef int _failed(object failure, str path, ol_error *error) noexcept:
    cdef int status = OL_IO
    keep_interrupt(failure)
    if isinstance(failure, FileNotFoundError):
        status = OL_NO_SUCH_FILE
    elif isinstance(failure, MemoryError):
        status = OL_NO_MEMORY
    try:
        text = failure_text(failure).encode("utf-8", "replace")
        name = os.fsencode(path)
        ol_fail(error, status, "%s", <const char *>text)
        ol_error_at(error, <const char *>name, -1)
        if isinstance(failure, OSError) and failure.errno:
            error.sys_errno = failure.errno
    except BaseException:
        ol_fail(error, status, "the file system reported a failure without a reason")
    return status


cdef int _open(ol_fs *fs, const char *path, ol_open_mode mode, ol_file **file, ol_error *error) noexcept with gil:
    cdef _OpenFile opened
    name = os.fsdecode(path)
    if mode != OL_OPEN_READ:
        return ol_fail(error, OL_READ_ONLY, "cannot write: offsetlog only reads from pyarrow file systems")
    try:
        opened = _OpenFile.__new__(_OpenFile)
        opened.file = (<object>(<arrow_port *>fs).files).open_input_file(name)
        opened.path, opened.block, opened.block_position = name, b"", 0
        opened.size = opened.file.size()
    except BaseException as failure:
        return _failed(failure, name, error)
    Py_INCREF(opened)
    file[0] = <ol_file *><PyObject *>opened
    return OL_OK


cdef void _close(ol_file *file) noexcept with gil:
    if file == NULL:
        return
    opened = <_OpenFile><PyObject *>file
    try:
        opened.file.close()
    except BaseException as failure:
        # All requested bytes were read, so an error of the close is ignored, but an interrupt is kept.
        keep_interrupt(failure)
    Py_DECREF(opened)


cdef int _size(ol_file *file, int64_t *size, ol_error *error) noexcept with gil:
    size[0] = (<_OpenFile><PyObject *>file).size
    return OL_OK


cdef int _read(ol_file *file, int64_t position, void *data, size_t size, size_t *got, ol_error *error) noexcept with gil:
    opened = <_OpenFile><PyObject *>file
    try:
        got[0] = opened.take(position, <char *>data, size)
    except BaseException as failure:
        return _failed(failure, opened.path, error)
    return OL_OK


cdef int _list(ol_fs *fs, const char *path, int (*visit)(void *context, const char *name) noexcept nogil, void *context,
               ol_error *error) noexcept with gil:
    cdef int status
    name = os.fsdecode(path)
    try:
        import pyarrow.fs

        infos = (<object>(<arrow_port *>fs).files).get_file_info(pyarrow.fs.FileSelector(name))
        names = [os.fsencode(info.base_name) for info in infos]
    except BaseException as failure:
        return _failed(failure, name, error)
    for each in names:
        status = visit(context, <bytes>each)
        if status != OL_OK:
            return status
    return OL_OK


cdef int _exists(ol_fs *fs, const char *path, c_bool *exists, ol_error *error) noexcept with gil:
    name = os.fsdecode(path)
    try:
        import pyarrow.fs

        info = (<object>(<arrow_port *>fs).files).get_file_info(name)
        exists[0] = info.type != pyarrow.fs.FileType.NotFound
    except BaseException as failure:
        return _failed(failure, name, error)
    return OL_OK


cdef int _refuse(ol_error *error) noexcept nogil:
    return ol_fail(error, OL_READ_ONLY, "cannot write: offsetlog only reads from pyarrow file systems")


cdef int _write(ol_file *file, int64_t position, const void *data, size_t size, ol_error *error) noexcept nogil:
    return _refuse(error)


cdef int _truncate(ol_file *file, int64_t size, ol_error *error) noexcept nogil:
    return _refuse(error)


cdef int _flush(ol_file *file, ol_error *error) noexcept nogil:
    return _refuse(error)


cdef int _rename(ol_fs *fs, const char *source, const char *target, ol_error *error) noexcept nogil:
    return _refuse(error)


cdef int _refuse_path(ol_fs *fs, const char *path, ol_error *error) noexcept nogil:
    return _refuse(error)


cdef int _lock(ol_fs *fs, const char *path, ol_file **file, ol_error *error) noexcept nogil:
    return _refuse(error)


cdef class ArrowFileSystem(FileSystem):
    """Reads files through a pyarrow.fs.FileSystem.  Calls that write raise ReadOnlyError.

    A path is passed to that file system unchanged.

    Any thread may use the file system; each open file belongs to one thread.
    """

    cdef arrow_port *arrow
    cdef readonly object files

    def __cinit__(self, files):
        cdef arrow_port *arrow = <arrow_port *>malloc(sizeof(arrow_port))
        if arrow == NULL:
            raise MemoryError
        memset(arrow, 0, sizeof(arrow_port))
        # The calls that reading needs; the others stay empty, because no reader calls them.
        arrow.port.open, arrow.port.close, arrow.port.size, arrow.port.read = _open, _close, _size, _read
        arrow.port.list, arrow.port.exists = _list, _exists
        arrow.port.write, arrow.port.truncate, arrow.port.flush = _write, _truncate, _flush
        arrow.port.rename, arrow.port.remove = _rename, _refuse_path
        arrow.port.make_directory, arrow.port.flush_directory, arrow.port.lock = _refuse_path, _refuse_path, _lock
        self.files = files
        arrow.files = <PyObject *>files
        self.arrow = arrow
        self.fs = &arrow.port

    def __dealloc__(self):
        free(self.arrow)

    def __reduce__(self):
        return ArrowFileSystem, (self.files,)
