/* base/java_string: the hash and the length that Java gives to a string of UTF-8
 * (docs/format/partitioning.md §4).
 *
 * The log partition of a group follows from this hash, so it must equal Java's for any bytes,
 * malformed ones included.  No function here allocates, locks or fails.
 */
#ifndef OL_BASE_JAVA_STRING_H
#define OL_BASE_JAVA_STRING_H

#include "base/base.h"

/* Returns Java's String.hashCode of the string that Java's UTF-8 decoder makes of these bytes: each
 * run of malformed bytes, as Java delimits it, becomes U+FFFD (docs/format/partitioning.md §4,
 * docs/format/traps.md trap 4). */
int32_t ol_java_hash(ol_slice utf8);

/* Returns the partition of a group: |hash| mod count, with |INT32_MIN| = 0 (docs/format/traps.md
 * traps 1 to 3).  `count` is above 0. */
int32_t ol_partition_for(ol_slice group, int32_t count);

/* Decodes the next character as Java does: a run of malformed bytes, as Java delimits it, becomes
 * U+FFFD.  Returns how many of the `left` bytes (at least 1) the character takes. */
size_t ol_java_character(const uint8_t *p, size_t left, uint32_t *character);

/* Returns how many UTF-16 units the string has in Java (docs/format/traps.md trap 16).  The number
 * is exact only if *valid is set to true: the bytes are well-formed UTF-8, without surrogates and
 * overlong forms. */
size_t ol_utf16_units(ol_slice utf8, bool *valid);

#endif
