cimport cython

from offsetlog._native.csrc cimport ol_file, ol_fs

# The file port as an object.  Code that opens files receives one, and keeps it as long as a file is open.
cdef class FileSystem:
    cdef ol_fs *fs

# An exclusive lock, held until it is closed or garbage collected.
@cython.final
cdef class FileLock:
    cdef FileSystem owner
    cdef ol_file *file
