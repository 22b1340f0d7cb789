/* format/message_set: messages of magic 0 and 1; private to format/batch.
 *
 * A message is a record with its own offset and CRC.  A compressed message is a wrapper, whose
 * value is a block of messages (docs/format/batches.md §2.8, docs/format/brokers.md §15.2).
 * Ownership and locks are as in format/batch.  The functions that can fail return OL_CORRUPT or the
 * status of the decompressor. */
#ifndef OL_FORMAT_MESSAGE_SET_H
#define OL_FORMAT_MESSAGE_SET_H

#include "format/batch.h"

enum {
    OL_MESSAGE_AT_CRC = 12,
    OL_MESSAGE_AT_ATTRIBUTES = 17,
    OL_MESSAGE_AT_BODY_MAGIC_0 = 18,    /* position of the key's length */
    OL_MESSAGE_AT_TIMESTAMP = 18,
    OL_MESSAGE_AT_BODY_MAGIC_1 = 26,
};

/* Returns the length field of a message with null key and null value. */
static inline int32_t ol_message_least_length(int8_t magic) { return magic == 0 ? 14 : 22; }

/* Fills *batch from the message at `data`, which has `size` bytes.  The caller has checked its
 * magic and its length. */
int ol_message_parse(const uint8_t *data, size_t size, ol_batch *batch, ol_error *error)
    OL_NODISCARD;

/* Reads the record of one message, and checks that the key and the value fill the message exactly.
 * The offset of the record is the one in the message's header. */
int ol_message_record(const ol_batch *message, ol_record *record, ol_error *error) OL_NODISCARD;

/* Prepares a walk for ol_records_open.  The walk is over a single message, or over the decompressed
 * messages of a wrapper. */
int ol_messages_open(ol_records *records, ol_error *error) OL_NODISCARD;
int ol_messages_next(ol_records *records, ol_record *record, ol_error *error) OL_NODISCARD;

#endif
