/* Any bytes as the key or the value of a record of __consumer_offsets.
 *
 * The first byte chooses the type that a value is read as; the rest is the bytes.  Both decoders of offset commits must agree, and what
 * a schema accepts is written again and must read the same. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/java_string.h"
#include "format/offset_record.h"
#include "format/group_schema.h"
#include "format/transaction_schema.h"
#include "format/schema_encode.h"

static const char *const seeds[] = {
    "01" "000100086d792d67726f757000066f726465727300000003",
    "00" "000000086d792d67726f757000066f726465727300000003",
    "00" "0000000000000000002a00046d6574610000018bcfe56800",
    "01" "0001000000000000002a00046d6574610000018bcfe568000000018bcfee8fc0",
    "01" "0003000000000000002a0000000700046d6574610000018bcfe56800",
    "01" "0004000000000000002a00000007056d6574610000018bcfe568000100100102030405060708090a0b0c0d0e0f10",
    "02" "00000008636f6e73756d657200000005000572616e676500036d2d310000000100036d2d31000163000a2f3132372e302e302e310000afc800000002"
    "000100000003020304",
    "02" "00030008636f6e73756d657200000005000572616e676500036d2d310000018bcfe568000000000100036d2d310003692d31000163000a2f3132372e"
    "302e302e31000493e00000afc800000002000100000003020304",
    "02" "000409636f6e73756d6572000000050672616e6765046d2d310000018bcfe5680002046d2d3104692d3102630b2f3132372e302e302e31000493e0"
    "0000afc8030001040203040000",
    "03" "00000000000901000800000000000000ff",
    "04" "0000020102030405060708090a0b0c0d0e0f10027400000003010000",
    "05" "000500016700016d",
    "05" "00000002720263032f68030261026200000493e000010012010000afc8020672616e6765040102030000",
    "07" "0000020102030405060708090a0b0c0d0e0f100300000000000000020000",
    "08" "0000000000090000000800020102030405060708090a0b0c0d0e0f100200000000000100",
    "13" "00000000026302680000000000000000027003686800070001000000",
    "17" "000000000000020230020a6f72646572732d696e01010101010000",
    NULL,
};

const char *const *ol_fuzz_seeds(void) { return seeds; }

/* All reported values, as one hash, and the balance of begun and ended parts. */
typedef struct trace {
    uint64_t hash;
    int depth;
    int32_t elements;
} trace;

static void add(trace *t, uint64_t kind, const void *field, uint64_t value) {
    t->hash = ol_hash64_mix(t->hash ^ kind, (uint64_t)(uintptr_t)field) + ol_hash64_mix(t->hash, value + kind);
}

static int on_begin(void *context, const ol_field *field, ol_error *error) {
    (void)error;
    trace *t = context;
    OL_ASSERT(t->depth++ < 2 * OL_SCHEMA_DEPTH_MAX);
    add(t, 1, field, 0);
    return OL_OK;
}

static int on_end(void *context, const ol_field *field, ol_error *error) {
    (void)error;
    trace *t = context;
    OL_ASSERT(t->depth-- > 0);
    add(t, 2, field, 0);
    return OL_OK;
}

static int on_array(void *context, const ol_field *field, int32_t count, ol_error *error) {
    OL_ASSERT(count >= 0);
    add(context, 3, field, (uint64_t)count);
    return on_begin(context, field, error);
}

static int on_integer(void *context, const ol_field *field, int64_t value, ol_error *error) {
    (void)error;
    add(context, 4, field, (uint64_t)value);
    return OL_OK;
}

static int on_bytes(void *context, const ol_field *field, ol_slice value, ol_error *error) {
    (void)error;
    OL_ASSERT(value.data != NULL);
    add(context, 5, field, ol_hash64(value.data, value.size, 1));
    return OL_OK;
}

static int on_null(void *context, const ol_field *field, ol_error *error) {
    (void)error;
    add(context, 6, field, 0);
    return OL_OK;
}

static int on_unknown_tag(void *context, uint32_t tag, ol_slice value, ol_error *error) {
    (void)error;
    add(context, 7, NULL, tag);
    add(context, 8, NULL, ol_hash64(value.data, value.size, 1));
    return OL_OK;
}

static int walk(const ol_schema *schema, int16_t version, ol_slice bytes, trace *t, size_t *used) {
    *t = (trace){.hash = 1};
    ol_schema_visitor visitor = {on_begin, on_end, on_array, on_end, on_integer, on_bytes, on_null, on_unknown_tag, t};
    ol_error error;
    int status = ol_schema_decode(schema, version, bytes, &visitor, used, &error);
    OL_ASSERT(status == OL_OK || status == OL_CORRUPT || status == OL_UNSUPPORTED);
    if (status == OL_OK) OL_ASSERT(t->depth == 0 && *used <= bytes.size);
    return status;
}

static int check_schema(const ol_schema *schema, int16_t version, ol_slice bytes) {
    trace first, again;
    size_t used, written;
    ol_error error;
    int status = walk(schema, version, bytes, &first, &used);
    if (status != OL_OK) return status;
    size_t capacity = used + 1;     /* room for less than it needs is an error, not damage */
    uint8_t *out = malloc(capacity);
    ol_schema_writer writer;
    OL_ASSERT(ol_schema_writer_start(&writer, schema, version, out, capacity, &error) == OL_OK);
    ol_schema_visitor visitor = ol_schema_writer_visitor(&writer);
    int rewritten = ol_schema_decode(schema, version, bytes, &visitor, NULL, &error);
    if (rewritten == OL_OK) {
        OL_ASSERT(ol_schema_writer_finish(&writer, &written, &error) == OL_OK);
        OL_ASSERT(walk(schema, version, ol_slice_of(out, written), &again, &used) == OL_OK);
        OL_ASSERT(used == written && again.hash == first.hash);
    }
    OL_ASSERT(rewritten == OL_OK || rewritten == OL_INVALID);   /* tags that do not ascend are read, not written */
    free(out);
    return OL_OK;
}

static void check_key(ol_slice bytes) {
    ol_key key;
    ol_error error;
    int status = ol_key_decode(bytes, &key, &error);
    OL_ASSERT(status == OL_OK || status == OL_CORRUPT);
    if (bytes.size < 2) return;
    const ol_schema *schema = ol_schema_of_key(ol_load_i16(bytes.data));
    if (schema == NULL) {
        OL_ASSERT(status == OL_OK && !key.known);
        return;
    }
    OL_ASSERT(check_schema(schema, 0, ol_slice_of(bytes.data + 2, bytes.size - 2)) == status);
    if (status != OL_OK) return;
    bool valid;
    OL_ASSERT(ol_utf16_units(key.group, &valid) <= key.group.size);
    int32_t partition = ol_partition_for(key.group, 50);
    OL_ASSERT(partition >= 0 && partition < 50);
}

static void check_offset_value(ol_slice bytes, int16_t type, int schema_status) {
    ol_offset_value value;
    ol_error error;
    int status = ol_offset_value_decode(bytes, type, &value, &error);
    OL_ASSERT(status == schema_status);
    if (status != OL_OK) return;
    size_t size = ol_offset_value_size(&value, value.version);
    uint8_t *out = malloc(size);
    ol_offset_value back;
    OL_ASSERT(ol_offset_value_put(out, &value, value.version) == out + size);
    OL_ASSERT(ol_offset_value_decode(ol_slice_of(out, size), type, &back, &error) == OL_OK);
    OL_ASSERT(back.offset == value.offset && back.commit_timestamp == value.commit_timestamp);
    OL_ASSERT(back.expire_timestamp == value.expire_timestamp && back.leader_epoch == value.leader_epoch);
    OL_ASSERT(ol_slice_equal(back.metadata, value.metadata) && (back.topic_id == NULL) == (value.topic_id == NULL));
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    int16_t type = (int16_t)(data[0] % (OL_KEY_LAST_KNOWN + 1));
    ol_slice bytes = ol_slice_of(data + 1, size - 1);
    check_key(bytes);
    const ol_schema *schema = ol_schema_of_value(type);
    if (bytes.size < 2) return 0;
    int16_t version = ol_load_i16(bytes.data);
    ol_slice body = ol_slice_of(bytes.data + 2, bytes.size - 2);
    if (schema != NULL) {
        int status = check_schema(schema, version, body);
        if (type <= OL_KEY_OFFSET_COMMIT) check_offset_value(bytes, type, status);
    }
    check_schema(ol_schema_of_subscription(), version & 3, body);
    check_schema(ol_schema_of_assignment(), version & 3, body);
    check_schema(ol_schema_of_transaction_value(0), version & 1, body);
    return 0;
}
