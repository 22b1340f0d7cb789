/* wire/message: requests and responses as values, which look the same in every version.
 *
 * A message is the values of its outermost fields in the order of their table.  A field that a
 * version does not have holds its default after a read, and is skipped by a write; so code that
 * handles a message does not ask for its version (docs/format/wire.md §11.3).
 *
 * Locks: none.
 */
#ifndef OL_WIRE_MESSAGE_H
#define OL_WIRE_MESSAGE_H

#include "wire/form.h"

/* Reads the body of a message, whose header was read before.  The values borrow from `bytes`, and
 * the defaults of structs from the form.  *used (may be NULL) is the size of the body; the caller
 * decides about bytes after it, which brokers ignore.  Unknown tags are skipped.  No more is taken
 * from the pool than the remaining bytes can hold.
 *
 * Fails with OL_CORRUPT if the body ends early or a field is null that must not be, with OL_LIMIT
 * if the body needs more values than the pool may give, or with OL_NO_MEMORY. */
int ol_message_read(const ol_form *form, ol_slice bytes, ol_value_pool *pool, ol_value **message,
                    size_t *used, ol_error *error) OL_NODISCARD;

/* Returns a size that the body does not exceed. */
size_t ol_message_size_max(const ol_form *form, const ol_value *message);

/* Writes the body.  A tagged field that has its default is left out.
 *
 * Fails with OL_TOO_LARGE if the body does not fit `capacity` or a string is too long, or with
 * OL_INVALID if an integer is out of its range or a field is null although the version does not
 * allow it. */
int ol_message_write(const ol_form *form, const ol_value *message, uint8_t *bytes, size_t capacity,
                     size_t *size, ol_error *error) OL_NODISCARD;

#endif
