/* base/crc32c_hardware: the CRC-32C of processors with an instruction for it.
 *
 * Private to base/crc32c.  The CRC instruction has a latency of three cycles but can start in every
 * cycle, so one dependency chain uses a third of the unit.  Long input is therefore split into
 * three lanes of equal length, which are computed side by side.  To move a lane's CRC over the n
 * bytes that follow the lane, it is multiplied by x^(8 n) modulo the polynomial.  The functions
 * take no locks.
 */
#ifndef OL_BASE_CRC32C_HARDWARE_H
#define OL_BASE_CRC32C_HARDWARE_H

#include "base/crc32c.h"

/* Returns the implementation for this processor and its name, or NULL.  Call it once, before the
 * function that it returns. */
ol_crc32c_function ol_crc32c_hardware(const char **name);

/* Return the product of two values modulo the Castagnoli polynomial in its reflected form, and
 * x^bits modulo this polynomial. */
uint32_t ol_crc32c_multiply(uint32_t a, uint32_t b);
uint32_t ol_crc32c_power(uint64_t bits);

#endif
