/* log/segment_checksum: the checksum of a segment's batches, as the manifest stores it
 * (log/files/manifest.h).
 *
 * It covers of each batch the bytes that the batch's own CRC does not cover, and that CRC: so it is
 * made from headers alone, while a segment is written.  Pure functions, and one that reads a file;
 * no lock.
 */
#ifndef OL_LOG_SEGMENT_CHECKSUM_H
#define OL_LOG_SEGMENT_CHECKSUM_H

#include "base/crc32c.h"
#include "base/status.h"
#include "format/batch.h"
#include "fs/fs.h"

/* Continues a checksum, which begins with 0, with the batch at `batch`.  (In a message of magic 0
 * or 1 these are other bytes, its CRC among them.) */
static inline uint32_t ol_segment_checksum_add(uint32_t checksum, const uint8_t *batch) {
    return ol_crc32c_extend(checksum, batch, OL_BATCH_AT_CRC + sizeof(uint32_t));
}

/* Reads the whole batches in the first `size` bytes of a file.  Fails as ol_file_scan_next at bytes
 * that are not a whole batch. */
int ol_segment_checksum_file(ol_fs *fs, const char *path, int64_t size, uint32_t *checksum,
                             ol_error *error) OL_NODISCARD;

#endif
