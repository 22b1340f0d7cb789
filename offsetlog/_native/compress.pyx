"""Compresses the records of a batch through pyarrow's codecs, in the framings that every Kafka client reads.

Source: docs/format/batches.md §2.3, §2.8.
"""

from offsetlog._native.csrc cimport OL_CODEC_GZIP, OL_CODEC_LZ4, OL_CODEC_SNAPPY, OL_CODEC_ZSTD

from offsetlog.errors import UnsupportedVersionError

# Magic, version and the oldest version that reads it.
cdef bytes XERIAL_HEADER = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
cdef Py_ssize_t SNAPPY_BLOCK_BYTES = 32 << 10
# Version 1 with independent blocks of at most 64 KiB, without sizes, and without checksums except the header's.
cdef bytes LZ4_MAGIC = b"\x04\x22\x4d\x18"
cdef bytes LZ4_DESCRIPTOR = b"\x60\x40"
cdef bytes LZ4_END = b"\x00\x00\x00\x00"
cdef Py_ssize_t LZ4_BLOCK_BYTES = 64 << 10
cdef unsigned int LZ4_STORED = 0x80000000U
cdef int ZSTD_LEVEL = 3


cdef bytes _deflate_snappy(bytes source):
    # The framing of Java's SnappyOutputStream, which all of Kafka's clients read.
    import pyarrow

    cdef list parts = [XERIAL_HEADER]
    cdef Py_ssize_t position
    codec = pyarrow.Codec("snappy")
    for position in range(0, len(source), SNAPPY_BLOCK_BYTES):
        block = codec.compress(source[position : position + SNAPPY_BLOCK_BYTES], asbytes=True)
        parts.append(len(block).to_bytes(4, "big"))
        parts.append(block)
    return b"".join(parts)


cdef bytes _deflate_lz4(bytes source, int magic):
    # Kafka's readers refuse blocks that depend on earlier ones, which pyarrow's frames above 64 KiB have, and stop after the
    # first frame.  With magic 0, the hash included the frame's magic (KAFKA-3160), and readers of magic 0 expect that.
    import pyarrow
    import xxhash

    cdef bytes hashed = LZ4_MAGIC + LZ4_DESCRIPTOR if magic == 0 else LZ4_DESCRIPTOR
    cdef int checksum = (xxhash.xxh32(hashed).intdigest() >> 8) & 0xFF
    cdef list parts = [LZ4_MAGIC, LZ4_DESCRIPTOR, bytes([checksum])]
    cdef Py_ssize_t position
    codec = pyarrow.Codec("lz4_raw")
    for position in range(0, len(source), LZ4_BLOCK_BYTES):
        plain = source[position : position + LZ4_BLOCK_BYTES]
        block = codec.compress(plain, asbytes=True)
        if len(block) < len(plain):
            parts.append(len(block).to_bytes(4, "little"))
            parts.append(block)
        else:
            parts.append((len(plain) | LZ4_STORED).to_bytes(4, "little"))
            parts.append(plain)
    parts.append(LZ4_END)
    return b"".join(parts)


def deflate(int codec, bytes source not None, int magic=2):
    """Returns the compressed block of one batch, which `inflate` and every Kafka client can read.

    Args:
        codec: 1 gzip, 2 snappy (xerial framing), 3 lz4 frame, 4 zstd.
        source: the records.
        magic: the magic of the batch.  In batches of magic 0, the header checksum of an lz4 frame is wrong
            (KAFKA-3160); it is written this way because the readers of magic 0 expect it.

    Raises:
        UnsupportedVersionError: the codec is unknown.
    """
    import pyarrow

    if codec == OL_CODEC_SNAPPY:
        return _deflate_snappy(source)
    if codec == OL_CODEC_LZ4:
        return _deflate_lz4(source, magic)
    if codec == OL_CODEC_GZIP:
        return pyarrow.Codec("gzip").compress(source, asbytes=True)
    if codec == OL_CODEC_ZSTD:
        return pyarrow.Codec("zstd", compression_level=ZSTD_LEVEL).compress(source, asbytes=True)
    raise UnsupportedVersionError(f"unknown codec {codec}")
