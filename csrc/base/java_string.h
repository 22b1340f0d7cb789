/* base/java_string: the hash and the length that Java gives to a string of UTF-8
 * (docs/format/partitioning.md §4).
 *
 * The hash of a group's name decides the log partition of the group, so it must equal the hash that
 * Java computes, for any bytes, even malformed ones.  The functions allocate no memory, take no
 * locks and cannot fail.
 */
#ifndef OL_BASE_JAVA_STRING_H
#define OL_BASE_JAVA_STRING_H

#include "base/base.h"

/* Returns the hash that Java's String.hashCode gives to the string that Java's UTF-8 decoder makes
 * of these bytes.  The decoder replaces each run of malformed bytes by U+FFFD
 * (docs/format/partitioning.md §4, docs/format/traps.md trap 4). */
int32_t ol_java_hash(ol_slice utf8);

/* Returns the partition of a group: |hash| mod count, with |INT32_MIN| = 0 (docs/format/traps.md
 * traps 1 to 3).  `count` is above 0. */
int32_t ol_partition_for(ol_slice group, int32_t count);

/* Decodes the character at `p` as Java's UTF-8 decoder does.  A run of malformed bytes becomes one
 * character U+FFFD; the run ends where Java's decoder ends it.  Returns the number of bytes that
 * were decoded.  `left` is the number of bytes from `p` on, at least 1. */
size_t ol_java_character(const uint8_t *p, size_t left, uint32_t *character);

/* Returns how many UTF-16 units the string has in Java (docs/format/traps.md trap 16).  Sets *valid
 * to whether the bytes are well-formed UTF-8, without surrogates and overlong forms.  If *valid is
 * false, the number is not exact. */
size_t ol_utf16_units(ol_slice utf8, bool *valid);

#endif
