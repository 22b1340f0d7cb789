/* log/segment_checksum: the checksum of a segment's batches, as the manifest stores it
 * (log/files/manifest.h).
 *
 * For each batch, the checksum covers the CRC of the batch and the bytes that this CRC does not
 * cover.  It can therefore be computed from the headers alone while a segment is written.  The
 * functions take no lock, and only ol_segment_checksum_file reads a file. */
#ifndef OL_LOG_SEGMENT_CHECKSUM_H
#define OL_LOG_SEGMENT_CHECKSUM_H

#include "base/crc32c.h"
#include "base/status.h"
#include "format/batch.h"
#include "fs/fs.h"

/* Adds the batch at `batch` to a checksum, which begins with the value 0.  Only the first bytes of
 * the batch are added, up to the end of its CRC.  For a message of magic 0 or 1, the same number of
 * bytes is added; these bytes include the CRC of the message. */
static inline uint32_t ol_segment_checksum_add(uint32_t checksum, const uint8_t *batch) {
    return ol_crc32c_extend(checksum, batch, OL_BATCH_AT_CRC + sizeof(uint32_t));
}

/* Computes the checksum of the batches in the first `size` bytes of a file.  Fails as
 * ol_file_scan_next does, for example if these bytes do not consist of whole batches. */
int ol_segment_checksum_file(ol_fs *fs, const char *path, int64_t size, uint32_t *checksum,
                             ol_error *error) OL_NODISCARD;

#endif
