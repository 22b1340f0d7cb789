"""A file system for the crash tests (csrc/testing/fault_fs.h): it stops the machine and says what its disk could hold then."""

import os

from libc.stdint cimport int64_t, uint64_t

from offsetlog._native.csrc cimport ol_error, ol_fs
from offsetlog._native.files cimport FileSystem
from offsetlog._native.status cimport check


cdef extern from "testing/fault_fs.h" nogil:
    int ol_fault_fs_create(const char *root, ol_fs **fs, ol_error *error) noexcept
    void ol_fault_fs_free(ol_fs *fs) noexcept
    int64_t ol_fault_fs_operations(ol_fs *fs) noexcept
    int64_t ol_fault_fs_flushes(ol_fs *fs) noexcept
    void ol_fault_fs_stop_at(ol_fs *fs, int64_t operation) noexcept
    int ol_fault_fs_stop(ol_fs *fs, ol_error *error) noexcept
    bint ol_fault_fs_stopped(ol_fs *fs) noexcept
    void ol_fault_fs_fail_at(ol_fs *fs, int64_t operation, int sys_errno) noexcept
    void ol_fault_fs_fail_flush(ol_fs *fs, int64_t flush, int sys_errno) noexcept
    void ol_fault_fs_fill(ol_fs *fs, int64_t operation) noexcept
    bint ol_fault_fs_is_full(ol_fs *fs) noexcept
    int64_t ol_fault_fs_reads(ol_fs *fs) noexcept
    void ol_fault_fs_fail_read(ol_fs *fs, int64_t read, int sys_errno) noexcept
    int ol_fault_fs_spoil(ol_fs *fs, const char *path, int64_t start, int64_t end, ol_error *error) noexcept
    int ol_fault_fs_shrink(ol_fs *fs, const char *path, int64_t size, ol_error *error) noexcept
    int ol_fault_fs_write_back(ol_fs *fs, uint64_t seed, ol_error *error) noexcept
    int ol_fault_fs_materialize(ol_fs *fs, const char *target, uint64_t seed, ol_error *error) noexcept
    int ol_fault_fs_materialize_all(ol_fs *fs, const char *target, ol_error *error) noexcept


cdef class FaultFileSystem(FileSystem):
    """Works on the real directory `root`, and knows what of it is durable.  Close every file before it is let go."""

    def __cinit__(self, root):
        cdef bytes name = os.fsencode(root)
        cdef const char *text = name
        cdef ol_fs *fs = NULL
        cdef ol_error error
        # Nothing to free until there is something.
        self.fs = NULL
        check(ol_fault_fs_create(text, &fs, &error), &error)
        self.fs = fs

    def __dealloc__(self):
        if self.fs != NULL:
            ol_fault_fs_free(self.fs)

    @property
    def operations(self):
        """Operations begun so far, the one that stopped the machine included."""
        return ol_fault_fs_operations(self.fs)

    @property
    def flushes(self):
        """Flushes of files so far."""
        return ol_fault_fs_flushes(self.fs)

    @property
    def stopped(self):
        """Whether the machine has stopped."""
        return bool(ol_fault_fs_stopped(self.fs))

    def stop_at(self, int64_t operation):
        """Stops the machine at this operation, counted from 1; 0 means never."""
        ol_fault_fs_stop_at(self.fs, operation)

    def stop(self):
        """Stops the machine now."""
        cdef ol_error error
        check(ol_fault_fs_stop(self.fs, &error), &error)

    def fail_at(self, int64_t operation, int errno):
        """Makes one operation fail once; 0 takes the order back."""
        ol_fault_fs_fail_at(self.fs, operation, errno)

    def fail_flush(self, int64_t flush, int errno):
        """Makes one flush of a file fail once; 0 takes the order back."""
        ol_fault_fs_fail_flush(self.fs, flush, errno)

    @property
    def full(self):
        """Whether the next operation meets a full disk."""
        return bool(ol_fault_fs_is_full(self.fs))

    def fill(self, int64_t operation):
        """From this operation on the disk is full; 0 gives it space again."""
        ol_fault_fs_fill(self.fs, operation)

    @property
    def reads(self):
        """Reads so far: everything that asks and changes nothing."""
        return ol_fault_fs_reads(self.fs)

    def fail_read(self, int64_t read, int errno):
        """Makes one read fail once; 0 takes the order back."""
        ol_fault_fs_fail_read(self.fs, read, errno)

    def spoil(self, path, int64_t start, int64_t end):
        """The disk cannot read bytes [start, end) of a file, until it is given an empty range."""
        cdef bytes name = os.fsencode(path)
        cdef const char *text = name
        cdef ol_error error
        check(ol_fault_fs_spoil(self.fs, text, start, end, &error), &error)

    def shrink(self, path, int64_t size):
        """Cuts a file, as another program may do it."""
        cdef bytes name = os.fsencode(path)
        cdef const char *text = name
        cdef ol_error error
        check(ol_fault_fs_shrink(self.fs, text, size, &error), &error)

    def write_back(self, uint64_t seed):
        """Lets the kernel write some dirty pages back by itself."""
        cdef ol_error error
        check(ol_fault_fs_write_back(self.fs, seed, &error), &error)

    def materialize(self, target, uint64_t seed):
        """Writes into an empty directory one state that the disk could hold after a power loss."""
        cdef bytes name = os.fsencode(target)
        cdef const char *text = name
        cdef ol_error error
        check(ol_fault_fs_materialize(self.fs, text, seed, &error), &error)

    def materialize_all(self, target):
        """Writes into an empty directory what is there after the process, but not the machine, died."""
        cdef bytes name = os.fsencode(target)
        cdef const char *text = name
        cdef ol_error error
        check(ol_fault_fs_materialize_all(self.fs, text, &error), &error)
