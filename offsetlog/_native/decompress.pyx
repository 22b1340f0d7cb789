"""Decompresses batches through pyarrow's codecs, up to a limit of bytes.

Source: docs/architecture.md §9, docs/format/batches.md §2.3, §2.8.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uintptr_t

from offsetlog._native.csrc cimport (
    OL_CODEC_GZIP,
    OL_CODEC_LZ4,
    OL_CODEC_SNAPPY,
    OL_CODEC_ZSTD,
    OL_CORRUPT,
    OL_DECOMPRESSED_LIMIT_DEFAULT,
    OL_IO,
    OL_LIMIT,
    OL_NO_MEMORY,
    OL_OK,
    OL_UNSUPPORTED,
    ol_codec,
    ol_error,
    ol_fail,
    ol_slice,
)
from offsetlog._native.status cimport keep_interrupt

from offsetlog.errors import CorruptionError, LimitError, UnsupportedVersionError

cdef bytes XERIAL_MAGIC = b"\x82SNAPPY\x00"
cdef Py_ssize_t XERIAL_HEADER_SIZE = 16
cdef bytes LZ4_MAGIC = b"\x04\x22\x4d\x18"
cdef Py_ssize_t READ_BYTES_MIN = 64 << 10
cdef Py_ssize_t READ_BYTES_MAX = 4 << 20

NAMES = {OL_CODEC_GZIP: "gzip", OL_CODEC_SNAPPY: "snappy", OL_CODEC_LZ4: "lz4", OL_CODEC_ZSTD: "zstd"}


# ------------------------------------------------------------------------------------------------------------- each codec


cdef bytes _inflate_stream(str name, object source, Py_ssize_t limit):
    # Kafka does not store the inflated size.  Reading up to one byte above the limit needs no more memory than the limit.
    import pyarrow

    cdef list parts = []
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t step = min(max(READ_BYTES_MIN, 4 * <Py_ssize_t>len(source)), READ_BYTES_MAX)
    with pyarrow.CompressedInputStream(pyarrow.BufferReader(pyarrow.py_buffer(source)), name) as stream:
        while True:
            part = stream.read(min(step, limit + 1 - total))
            if not part:
                break
            total += len(part)
            if total > limit:
                raise LimitError(f"the {name} block inflates to more than {limit} bytes")
            parts.append(part)
            step = min(2 * step, READ_BYTES_MAX)
    return b"".join(parts)


cdef bytes _corrected_lz4(bytes source):
    # With magic 0, Kafka's hash included the frame's magic (KAFKA-3160).  Only that wrong checksum is corrected; the decoder
    # refuses any other.
    import xxhash

    if len(source) < 7 or source[:4] != LZ4_MAGIC:
        return source
    cdef Py_ssize_t end = 6 + (8 if source[4] & 0x08 else 0) + (4 if source[4] & 0x01 else 0)
    if len(source) <= end:
        return source
    cdef int stored = source[end]
    if stored != (xxhash.xxh32(source[:end]).intdigest() >> 8) & 0xFF:
        return source
    right = (xxhash.xxh32(source[4:end]).intdigest() >> 8) & 0xFF
    return source[:end] + bytes([right]) + source[end + 1 :]


cdef Py_ssize_t _snappy_size(bytes block) except -1:
    cdef Py_ssize_t size = 0
    cdef int shift
    for shift in range(5):
        if shift >= len(block):
            break
        size |= <Py_ssize_t>(block[shift] & 0x7F) << (7 * shift)
        if block[shift] < 0x80:
            return size
    raise CorruptionError("a snappy block does not begin with its size")


cdef bytes _inflate_snappy_block(bytes block, Py_ssize_t limit):
    import pyarrow

    cdef Py_ssize_t size = _snappy_size(block)
    if size > limit:
        raise LimitError(f"a snappy block announces {size} bytes; the limit is {limit}")
    # The densest element expands 3 bytes to 64; a larger announced size is refused before memory is allocated for it.
    if size > 22 * <Py_ssize_t>len(block):
        raise CorruptionError(f"a snappy block of {len(block)} bytes cannot inflate to the {size} bytes that it announces")
    if size == 0:
        return b""
    return pyarrow.Codec("snappy").decompress(block, decompressed_size=size, asbytes=True)


cdef bytes _inflate_snappy(bytes source, Py_ssize_t limit):
    cdef list parts = []
    cdef Py_ssize_t position = 0
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t size
    if not source.startswith(XERIAL_MAGIC):
        return _inflate_snappy_block(source, limit)
    while position < len(source):
        # If a writer was flushed and reopened, the header is repeated between blocks.
        if source.startswith(XERIAL_MAGIC, position):
            position += XERIAL_HEADER_SIZE
            continue
        size = int.from_bytes(source[position : position + 4], "big")
        position += 4
        if size > len(source) - position:
            raise CorruptionError(f"a snappy block of {size} bytes is truncated")
        part = _inflate_snappy_block(source[position : position + size], limit - total)
        total += len(part)
        parts.append(part)
        position += size
    if position != len(source):
        raise CorruptionError("the snappy framing is truncated")
    return b"".join(parts)


def inflate(int codec, bytes source not None, Py_ssize_t limit, int magic=2):
    """Returns the decompressed bytes of the block of one batch.

    Args:
        codec: 1 gzip, 2 snappy (xerial framing, or one raw block), 3 lz4 frame, 4 zstd.
        source: the block.
        limit: the largest number of decompressed bytes.
        magic: the magic of the batch.  In batches of magic 0, an lz4 frame may also have the wrong header checksum of
            KAFKA-3160.

    Raises:
        LimitError: the decompressed block would have more than `limit` bytes.
        CorruptionError: the block is damaged.
        UnsupportedVersionError: the codec is unknown.
    """
    name = NAMES.get(codec)
    if name is None:
        raise UnsupportedVersionError(f"unknown codec {codec}")
    if codec == OL_CODEC_LZ4 and magic == 0:
        source = _corrected_lz4(source)
    try:
        if codec == OL_CODEC_SNAPPY:
            return _inflate_snappy(source, limit)
        return _inflate_stream(name, source, limit)
    except (OSError, ValueError) as failure:
        if isinstance(failure, (CorruptionError, LimitError)):
            raise
        raise CorruptionError(f"the {name} block is damaged: {failure}") from failure


# ---------------------------------------------------------------------------------------------------------------- the port


cdef int _report(ol_error *error, int status, object failure) noexcept:
    keep_interrupt(failure)
    cdef bytes text = (str(failure) or type(failure).__name__).encode("utf-8", "replace")
    return ol_fail(error, status, "%s", <const char *>text)


cdef int _decompress(void *context, ol_codec codec, int magic, ol_slice source, size_t limit, ol_slice *output,
                     ol_error *error) noexcept with gil:
    cdef Decompressor self = <Decompressor>context
    cdef bytes inflated
    try:
        block = PyBytes_FromStringAndSize(<const char *>source.data, <Py_ssize_t>source.size)
        inflated = inflate(<int>codec, block, <Py_ssize_t>limit, magic)
        output.data = <const uint8_t *>PyBytes_AS_STRING(inflated)
        output.size = <size_t>PyBytes_GET_SIZE(inflated)
        self._outputs[<uintptr_t>output.data] = inflated
        return OL_OK
    except LimitError as failure:
        return _report(error, OL_LIMIT, failure)
    except (UnsupportedVersionError, ImportError) as failure:
        return _report(error, OL_UNSUPPORTED, failure)
    except CorruptionError as failure:
        return _report(error, OL_CORRUPT, failure)
    except MemoryError as failure:
        return _report(error, OL_NO_MEMORY, failure)
    except BaseException as failure:  # not an error about the bytes
        return _report(error, OL_IO, failure)


cdef void _release(void *context, ol_slice output) noexcept with gil:
    (<Decompressor>context)._outputs.pop(<uintptr_t>output.data, None)


cdef class Decompressor:
    """Lets the engine decompress batches through `inflate`.  Any thread may use the object; each call takes the GIL."""

    def __cinit__(self, size_t limit=OL_DECOMPRESSED_LIMIT_DEFAULT):
        self._outputs = {}
        self.port.decompress = _decompress
        self.port.release = _release
        self.port.context = <void *>self
        self.port.limit = limit
