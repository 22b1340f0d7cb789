/* Computes the checksum of a segment that is on disk. */
#include "log/segment_checksum.h"

#include "log/file_scan.h"

int ol_segment_checksum_file(ol_fs *fs, const char *path, int64_t size, uint32_t *checksum,
                             ol_error *error) {
    ol_file_scan scan;
    ol_batch batch;
    *checksum = 0;
    int status = ol_file_scan_open(&scan, fs, path, 0, size, error);
    if (status != OL_OK) return status;
    while ((status = ol_file_scan_next(&scan, &batch, error)) == OL_OK) {
        *checksum = ol_segment_checksum_add(*checksum, batch.data);
    }
    ol_file_scan_close(&scan);
    return status == OL_END ? OL_OK : status;
}
