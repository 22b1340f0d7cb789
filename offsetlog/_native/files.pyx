"""The engine's file system (csrc/fs/fs.h), for files that Python code uses: small text files, directories, locks."""

import os

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free

from offsetlog._native.csrc cimport (
    OL_NO_MEMORY,
    OL_OK,
    OL_OPEN_WRITE,
    OL_UUID_SIZE,
    OL_UUID_TEXT_SIZE,
    c_bool,
    ol_checkpoint_entry,
    ol_directory_plan,
    ol_directory_name,
    ol_directory_name_parse,
    ol_error,
    ol_file,
    ol_fs_posix,
    ol_fs_read_file,
    ol_fs_replace_file,
    ol_manifest,
    ol_manifest_free,
    ol_manifest_parse,
    ol_manifest_segment,
    ol_offset_checkpoint,
    ol_offset_checkpoint_format,
    ol_offset_checkpoint_free,
    ol_offset_checkpoint_parse,
    ol_offset_checkpoint_set,
    ol_segment_checksum_file,
    ol_slice_of,
    ol_swap_plan,
    ol_swap_plan_free,
    ol_uuid,
    ol_uuid_format,
    ol_uuid_parse,
)
from offsetlog._native.status cimport check

from offsetlog.errors import CorruptionError

#: A text file of a log directory that is larger than this is refused without being read.
TEXT_FILE_BYTES_MAX = 64 << 20


cdef int _visit(void *context, const char *name) noexcept with gil:
    # No Python code runs here, so the handler of a signal cannot raise.
    try:
        (<list>context).append(<bytes>name)
        return OL_OK
    except MemoryError:
        return OL_NO_MEMORY


cdef class FileSystem:
    """The real file system.  Tests use a subclass that misreports the contents of the disk.

    Any thread may use the object.  Every method takes a path as str, bytes or PathLike, and releases the GIL while it
    works.  If it fails, it raises a StorageError that has the path.
    """

    def __cinit__(self, *arguments):
        self.fs = ol_fs_posix()

    def read_file(self, path, size_t limit=TEXT_FILE_BYTES_MAX):
        """Returns the content of a file.

        Raises LimitError if it has more than `limit` bytes, MissingFileError if it does not exist.
        """
        cdef bytes name = os.fsencode(path)
        cdef const char *text = name
        cdef uint8_t *data = NULL
        cdef size_t size = 0
        cdef ol_error error
        with nogil:
            check(ol_fs_read_file(self.fs, text, limit, &data, &size, &error), &error)
        try:
            return PyBytes_FromStringAndSize(<const char *>data, <Py_ssize_t>size)
        finally:
            free(data)

    def replace_file(self, path, bytes content not None):
        """Replaces a file: writes and flushes a temporary file, renames it, and flushes the directory.

        After a crash, the path has either the old file or the new one, complete.
        """
        cdef bytes name = os.fsencode(path)
        cdef const char *text = name
        cdef const char *data = content
        cdef size_t size = <size_t>len(content)
        cdef ol_error error
        with nogil:
            check(ol_fs_replace_file(self.fs, text, data, size, &error), &error)

    def append_to_file(self, path, int64_t position, bytes content not None):
        """Writes bytes at a position, which must be the file's end, and flushes them.

        After a crash, the file has all of the bytes, a part of them, or none, and pages of 4 KiB within that part can
        be zeros.  After a StorageError, the bytes may also be in the file.
        """
        cdef bytes name = os.fsencode(path)
        cdef const char *text = name
        cdef const char *data = content
        cdef size_t size = <size_t>len(content)
        cdef ol_file *file = NULL
        cdef ol_error error
        with nogil:
            check(self.fs.open(self.fs, text, OL_OPEN_WRITE, &file, &error), &error)
            status = self.fs.write(file, position, data, size, &error)
            if status == OL_OK:
                status = self.fs.flush(file, &error)
            self.fs.close(file)
            check(status, &error)

    def rename(self, source, target):
        """Renames a file within its directory; an existing file of the new name is replaced."""
        cdef bytes from_name = os.fsencode(source)
        cdef bytes to_name = os.fsencode(target)
        cdef const char *from_text = from_name
        cdef const char *to_text = to_name
        cdef ol_error error
        with nogil:
            check(self.fs.rename(self.fs, from_text, to_text, &error), &error)

    def segment_checksum(self, path, int64_t size):
        """Returns the checksum of the batches in the first `size` bytes of a segment; a log's manifest stores it."""
        cdef bytes name = os.fsencode(path)
        cdef const char *text = name
        cdef uint32_t checksum = 0
        cdef ol_error error
        with nogil:
            check(ol_segment_checksum_file(self.fs, text, size, &checksum, &error), &error)
        return checksum

    def list(self, path):
        """Returns the names in a directory, sorted."""
        cdef bytes name = os.fsencode(path)
        cdef const char *text = name
        cdef list names = []
        cdef void *context = <void *>names
        cdef ol_error error
        error.status = OL_OK
        with nogil:
            check(self.fs.list(self.fs, text, _visit, context, &error), &error)
        return sorted(map(os.fsdecode, names))

    def planned_names(self, path):
        """Returns (name after recovery, present name) for each file of a partition directory, in sorted order.

        The replacement of segments by others is called a swap.  Recovery finishes or undoes a swap that was interrupted
        (docs/format/recovery.md §9.1).  This call changes nothing.  If a swap ends during the call, it may raise
        MissingFileError.
        """
        cdef bytes name = os.fsencode(path)
        cdef const char *text = name
        cdef ol_swap_plan plan
        cdef ol_error error
        cdef size_t index
        with nogil:
            check(ol_directory_plan(self.fs, text, &plan, &error), &error)
        try:
            return [
                (os.fsdecode(<bytes>plan.names[index].name), os.fsdecode(<bytes>plan.names[index].real))
                for index in range(plan.name_count)
            ]
        finally:
            ol_swap_plan_free(&plan)

    def exists(self, path):
        """Returns whether a file or directory of this name exists."""
        cdef bytes name = os.fsencode(path)
        cdef const char *text = name
        cdef c_bool found = False
        cdef ol_error error
        with nogil:
            check(self.fs.exists(self.fs, text, &found, &error), &error)
        return bool(found)

    def make_directory(self, path):
        """Creates a directory; does nothing if it exists."""
        cdef bytes name = os.fsencode(path)
        cdef const char *text = name
        cdef ol_error error
        with nogil:
            check(self.fs.make_directory(self.fs, text, &error), &error)

    def remove(self, path):
        """Removes a file; raises MissingFileError if it does not exist."""
        cdef bytes name = os.fsencode(path)
        cdef const char *text = name
        cdef ol_error error
        with nogil:
            check(self.fs.remove(self.fs, text, &error), &error)

    def flush_directory(self, path):
        """Flushes a directory, so that the creations, renames and removals in it survive a power loss."""
        cdef bytes name = os.fsencode(path)
        cdef const char *text = name
        cdef ol_error error
        with nogil:
            check(self.fs.flush_directory(self.fs, text, &error), &error)

    def lock(self, path):
        """Takes the exclusive lock of a file; creates the file if it is missing.

        Raises LockedError if the lock is held.
        """
        cdef bytes name = os.fsencode(path)
        cdef const char *text = name
        cdef FileLock lock = FileLock.__new__(FileLock)
        cdef ol_error error
        lock.owner = self
        with nogil:
            check(self.fs.lock(self.fs, text, &lock.file, &error), &error)
        return lock


@cython.no_gc_clear  # an open file is closed through its file system
cdef class FileLock:
    """A lock that is held until `close`, or until the object is garbage collected."""

    def __cinit__(self):
        self.file = NULL

    def __init__(self):
        raise TypeError("FileLock cannot be created directly; use FileSystem.lock")

    def close(self):
        """Releases the lock; a second call does nothing."""
        cdef ol_file *file = self.file
        self.file = NULL
        if file != NULL:
            self.owner.fs.close(file)

    def __dealloc__(self):
        if self.file != NULL:
            self.owner.fs.close(self.file)
            self.file = NULL


# ---------------------------------------------------------------------------------------------------- the text files of Kafka


def parse_offset_checkpoint(bytes text not None):
    """Returns {(topic, partition): offset} of a checkpoint file.

    Raises CorruptionError for bytes that Kafka would not write.
    """
    cdef ol_offset_checkpoint checkpoint
    cdef ol_checkpoint_entry *entry
    cdef ol_error error
    cdef size_t index
    checkpoint.entries = NULL
    checkpoint.count = checkpoint.capacity = 0
    check(ol_offset_checkpoint_parse(&checkpoint, ol_slice_of(<const char *>text, <size_t>len(text)), &error), &error)
    try:
        entries = {}
        for index in range(checkpoint.count):
            entry = &checkpoint.entries[index]
            entries[(<bytes>entry.topic).decode("utf-8", "surrogateescape"), entry.partition] = entry.offset
        return entries
    finally:
        ol_offset_checkpoint_free(&checkpoint)


def format_offset_checkpoint(dict entries not None):
    """Returns the bytes of a checkpoint file with the given {(topic, partition): offset}."""
    cdef ol_offset_checkpoint checkpoint
    cdef ol_error error
    cdef char *text = NULL
    cdef size_t size = 0
    cdef bytes topic
    checkpoint.entries = NULL
    checkpoint.count = checkpoint.capacity = 0
    try:
        for (name, partition), offset in entries.items():
            topic = name.encode("utf-8", "surrogateescape")
            check(ol_offset_checkpoint_set(&checkpoint, topic, <int32_t>partition, <int64_t>offset, &error), &error)
        check(ol_offset_checkpoint_format(&checkpoint, &text, &size, &error), &error)
        return PyBytes_FromStringAndSize(text, <Py_ssize_t>size)
    finally:
        free(text)
        ol_offset_checkpoint_free(&checkpoint)


def parse_manifest(bytes text not None):
    """Returns (base offset, end offset, size, checksum or None) for each closed segment in a manifest.

    Returns None if the manifest says that a replacement of segments was begun, because the listed segments may then
    have been replaced.  Raises CorruptionError if the bytes are not a manifest.
    """
    cdef ol_manifest manifest
    cdef ol_manifest_segment *segment
    cdef ol_error error
    cdef size_t index
    check(ol_manifest_parse(&manifest, ol_slice_of(<const char *>text, <size_t>len(text)), &error), &error)
    try:
        if manifest.has_swap:
            return None
        listed = []
        for index in range(manifest.segment_count):
            segment = &manifest.segments[index]
            checksum = segment.checksum if segment.has_checksum else None
            listed.append((segment.base_offset, segment.end_offset, segment.size, checksum))
        return listed
    finally:
        ol_manifest_free(&manifest)


def parse_directory_name(str name not None):
    """Returns (topic, partition, kind) from the name of a partition directory, None for another name.

    Kind 0 is a partition in use.
    """
    cdef ol_directory_name parsed
    cdef bytes text = os.fsencode(name)
    if not ol_directory_name_parse(text, &parsed):
        return None
    return (<bytes>parsed.topic).decode("utf-8", "surrogateescape"), parsed.partition, parsed.kind


def format_uuid(bytes value not None):
    """Returns the text of an id of 16 bytes, as Kafka writes it: 22 characters."""
    cdef ol_uuid uuid
    cdef char[OL_UUID_TEXT_SIZE] text
    cdef int index
    if len(value) != OL_UUID_SIZE:
        raise ValueError(f"an id must have {OL_UUID_SIZE} bytes, not {len(value)}")
    for index in range(OL_UUID_SIZE):
        uuid.bytes[index] = <uint8_t>value[index]
    ol_uuid_format(&uuid, text)
    return text[:OL_UUID_TEXT_SIZE].decode("ascii")


def parse_uuid(str text not None):
    """Returns the 16 bytes of an id that Kafka wrote as text.

    Raises CorruptionError if Kafka would not write this text.
    """
    cdef ol_uuid uuid
    cdef bytes encoded = text.encode("utf-8", "surrogatepass")
    if not ol_uuid_parse(ol_slice_of(<const char *>encoded, <size_t>len(encoded)), &uuid):
        raise CorruptionError(f"{text!r} is not an id as Kafka writes it (22 characters of URL-safe base64)")
    return (<const char *>uuid.bytes)[:OL_UUID_SIZE]
