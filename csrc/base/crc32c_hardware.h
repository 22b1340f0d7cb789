/* base/crc32c_hardware: the CRC-32C of processors with an instruction for it.
 *
 * This header is private to base/crc32c.  The CRC instruction has a latency of three cycles, but a
 * new one can start in every cycle.  A chain in which each instruction waits for the one before it
 * therefore uses only a third of the unit.  Long input is split into three lanes of equal length,
 * whose CRCs are computed side by side and then combined.  To combine them, the CRC of a lane is
 * moved over the n bytes after the lane: it is multiplied by x^(8 n) modulo the polynomial.  The
 * functions take no locks.
 */
#ifndef OL_BASE_CRC32C_HARDWARE_H
#define OL_BASE_CRC32C_HARDWARE_H

#include "base/crc32c.h"

/* Returns the implementation for this processor and sets *name to its name.  Returns NULL if the
 * processor has no such instruction.  Must be called once, before the first call of the function
 * that it returns. */
ol_crc32c_function ol_crc32c_hardware(const char **name);

/* ol_crc32c_multiply returns the product of two values, and ol_crc32c_power returns x^bits.  Both
 * are taken modulo the Castagnoli polynomial in its reflected form. */
uint32_t ol_crc32c_multiply(uint32_t a, uint32_t b);
uint32_t ol_crc32c_power(uint64_t bits);

#endif
