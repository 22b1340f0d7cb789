/* base/crc32c: CRC-32C (Castagnoli) and CRC-32 (IEEE).
 *
 * Record batches of magic 2 and producer snapshots carry a CRC-32C.  Messages of magic 0 and 1
 * carry a CRC-32.  The implementation of CRC-32C is chosen once, at run time: SSE4.2 on x86-64, the
 * CRC extension on arm64, otherwise tables.  The functions take no locks and may be called from any
 * thread.
 */
#ifndef OL_BASE_CRC32C_H
#define OL_BASE_CRC32C_H

#include "base/base.h"

/* Returns the CRC of a whole run: ASCII "123456789" gives e3069283. */
uint32_t ol_crc32c(const void *data, size_t size);

/* Continues the CRC of preceding bytes: ol_crc32c_extend(ol_crc32c(a), b) is the CRC of a followed
 * by b. */
uint32_t ol_crc32c_extend(uint32_t crc, const void *data, size_t size);

/* ol_crc32c_implementation returns the name of the implementation in use: "sse4.2", "armv8" or
 * "tables".  ol_crc32c_by_name, which is for tests, returns the implementation with that name, or
 * NULL if this processor does not support it. */
const char *ol_crc32c_implementation(void);
typedef uint32_t (*ol_crc32c_function)(uint32_t crc, const void *data, size_t size);
ol_crc32c_function ol_crc32c_by_name(const char *name);

/* Returns the CRC-32 (IEEE): ASCII "123456789" gives cbf43926. */
uint32_t ol_crc32(const void *data, size_t size);

#endif
