/* wire/message: reads and writes requests and responses.  In memory, a message looks the same in
 * every version.
 *
 * A message consists of the values of its outermost fields, in the order of their table.  If a
 * version does not have a field, a read sets the field to its default, and a write skips it.  Code
 * that handles a message therefore does not depend on the version (docs/format/wire.md §11.3).
 *
 * The functions take no locks.
 */
#ifndef OL_WIRE_MESSAGE_H
#define OL_WIRE_MESSAGE_H

#include "wire/form.h"

/* Reads the body of a message, that is, the bytes after its header.  The values point into `bytes`;
 * the defaults of structs point into the form.  If `used` is not NULL, *used is set to the size of
 * the body.  The call ignores bytes after the body, as a broker does; the caller can refuse them.
 * Unknown tags are skipped.  The call takes no more values from the pool than the bytes of the body
 * can hold.
 *
 * Fails with OL_CORRUPT if the body ends early, or if a field is null that must not be null.  Fails
 * with OL_LIMIT if the body needs more values than the limit of the pool allows, or with
 * OL_NO_MEMORY. */
int ol_message_read(const ol_form *form, ol_slice bytes, ol_value_pool *pool, ol_value **message,
                    size_t *used, ol_error *error) OL_NODISCARD;

/* Returns an upper bound of the size of the message's body. */
size_t ol_message_size_max(const ol_form *form, const ol_value *message);

/* Writes the body of a message.  A tagged field whose value is the default is left out.
 *
 * Fails with OL_TOO_LARGE if the body has more than `capacity` bytes, or if a string is too long.
 * Fails with OL_INVALID if an integer is out of range, or if a field is null that the version does
 * not allow to be null. */
int ol_message_write(const ol_form *form, const ol_value *message, uint8_t *bytes, size_t capacity,
                     size_t *size, ol_error *error) OL_NODISCARD;

#endif
