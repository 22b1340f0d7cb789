/* Checks conditions on the generation of a group, and encodes the record that ends a generation. */
#include "partition/commit/generation.h"

#include <string.h>

#include "base/bytes.h"
#include "format/group_schema.h"
#include "format/offset_record.h"
#include "partition/partition_impl.h"

enum { VALUE_VERSION = 3, KEY_CONSUMER_GROUP_MEMBER = 5 };

size_t ol_commit_put_group_key(int16_t type, ol_slice group, uint8_t key[OL_GROUP_KEY_MAX]) {
    OL_ASSERT(group.size <= OL_STRING_SIZE_MAX);
    ol_store_i16(key, type);
    ol_store_i16(key + 2, (int16_t)group.size);
    if (group.size > 0) memcpy(key + 4, group.data, group.size);
    return 4 + group.size;
}

/* The fields of a group's own record that the condition needs. */
typedef struct group_facts {
    ol_slice protocol_type;
    int64_t generation;
    int32_t members;
} group_facts;

static bool is_named(const ol_field *field, const char *name) {
    return field != NULL && strcmp(field->name, name) == 0;
}

static int take_bytes(void *context, const ol_field *field, ol_slice value,
                      ol_error *error OL_UNUSED) {
    if (is_named(field, "protocolType")) ((group_facts *)context)->protocol_type = value;
    return OL_OK;
}

static int take_integer(void *context, const ol_field *field, int64_t value,
                        ol_error *error OL_UNUSED) {
    if (is_named(field, "generation") || is_named(field, "epoch")) {
        ((group_facts *)context)->generation = value;
    }
    return OL_OK;
}

/* The members themselves do not matter here. */
static int take_array(void *context, const ol_field *field, int32_t count,
                      ol_error *error OL_UNUSED) {
    if (!is_named(field, "members")) return OL_OK;
    ((group_facts *)context)->members = count;
    return OL_END;
}

static int decode(int16_t type, ol_slice value, group_facts *facts, ol_error *error) {
    *facts = (group_facts){.protocol_type = ol_slice_of("", 0), .generation = -1};
    if (value.size < 2) return ol_fail(error, OL_CORRUPT,
                                       "the value of a group record is too short for its version");
    const ol_schema_visitor visitor = {
        .bytes = take_bytes, .integer = take_integer, .begin_array = take_array, .context = facts};
    int status = ol_schema_decode(ol_schema_of_value(type), ol_load_i16(value.data),
                                  ol_slice_of(value.data + 2, value.size - 2), &visitor, NULL,
                                  error);
    return status == OL_END ? OL_OK : status;
}

/* Finds the latest written record of a key. */
static bool find_latest(const ol_partition *partition, ol_slice key, ol_group_record *record) {
    const ol_in_flight *inflight = &partition->inflight;
    if (inflight->active) {
        if (ol_group_records_get(inflight->written.group_records, key, record)) return true;
        if (ol_group_records_get(inflight->gone, key, record)) return false;
    }
    return ol_group_records_get(partition->state.group_records, key, record);
}

static int read_group(const ol_partition *partition, int16_t type, ol_slice group, bool *found,
                      group_facts *facts, ol_error *error) {
    uint8_t key[OL_GROUP_KEY_MAX];
    ol_group_record record;
    size_t size = ol_commit_put_group_key(type, group, key);
    *found = find_latest(partition, ol_slice_of(key, size), &record);
    return *found ? decode(type, record.value, facts, error) : OL_OK;
}

/* Returns whether the group's latest records include one of the type. */
static bool has_record(const ol_partition *partition, const ol_group_records *records,
                       ol_slice group, int16_t type) {
    size_t cursor = 0;
    ol_group_record record, latest;
    while (ol_group_records_next_of_group(records, group, &cursor, &record)) {
        if (ol_load_i16(record.key.data) == type && find_latest(partition, record.key, &latest)) {
            return true;
        }
    }
    return false;
}

/* A group of the consumer protocol has a record for each member. */
static bool has_modern_members(const ol_partition *partition, ol_slice group) {
    const ol_in_flight *inflight = &partition->inflight;
    return has_record(partition, partition->state.group_records, group,
                      KEY_CONSUMER_GROUP_MEMBER) ||
           (inflight->active && has_record(partition, inflight->written.group_records, group,
                                           KEY_CONSUMER_GROUP_MEMBER));
}

static int read_facts(const ol_partition *partition, ol_slice group, bool *found, bool *is_modern,
                      group_facts *facts, ol_error *error) {
    *is_modern = false;
    int status = read_group(partition, OL_KEY_GROUP_METADATA, group, found, facts, error);
    if (status != OL_OK || *found) return status;
    status = read_group(partition, OL_KEY_CONSUMER_GROUP_METADATA, group, found, facts, error);
    *is_modern = status == OL_OK && *found;
    if (*is_modern) facts->members = has_modern_members(partition, group) ? 1 : 0;
    return status;
}

int ol_commit_check_generation(const ol_partition *partition, const ol_item *item,
                               ol_commit_result *result, ol_error *error) {
    group_facts facts = {.generation = -1};
    bool is_modern;
    int status = read_facts(partition, item->group, &result->found, &is_modern, &facts, error);
    if (status != OL_OK) return status;
    result->found_offset = facts.generation;
    /* Group records in flight have no log offsets here, so only everything written so far settles
     * them. */
    int64_t end = ol_log_end(partition->log);
    result->rests_on = partition->inflight.active && partition->watermark < end ? end : -1;
    if (item->expected < 0) {
        if (!result->found || facts.members == 0) return OL_OK;
        return ol_fail(error, OL_GENERATION, "the group has members, in generation %lld",
                       (long long)facts.generation);
    }
    if (!result->found) return ol_fail(error, OL_GENERATION, "the group has no generation");
    if (facts.generation == item->expected) return OL_OK;
    return ol_fail(error, OL_GENERATION, "the generation of the group is %lld, not %lld",
                   (long long)facts.generation, (long long)item->expected);
}

/* Puts a string as versions below 4 have it; the caller has checked that it fits. */
static uint8_t *put_string(uint8_t *p, ol_slice text) {
    ol_store_i16(p, (int16_t)text.size);
    if (text.size > 0) memcpy(p + 2, text.data, text.size);
    return p + 2 + text.size;
}

static uint8_t *put_null(uint8_t *p) {
    ol_store_i16(p, -1);
    return p + 2;
}

int ol_commit_put_next_generation(const ol_partition *partition, ol_slice group, int64_t timestamp,
                                  uint8_t value[OL_FENCE_VALUE_MAX], size_t *size,
                                  int32_t *generation, ol_error *error) {
    group_facts facts = {.protocol_type = ol_slice_of("", 0), .generation = 0};
    bool found, is_modern;
    int status = read_facts(partition, group, &found, &is_modern, &facts, error);
    if (status != OL_OK) return status;
    if (is_modern) {
        return ol_fail(error, OL_INVALID,
                       "a group of the consumer protocol cannot be fenced by a new generation");
    }
    if (facts.generation >= INT32_MAX) {
        return ol_fail(error, OL_LIMIT, "the group has reached the greatest generation");
    }
    *generation = facts.generation < 0 ? 1 : (int32_t)facts.generation + 1;
    ol_store_i16(value, VALUE_VERSION);
    uint8_t *p = put_string(value + 2, facts.protocol_type);
    ol_store_i32(p, *generation);
    p = put_null(put_null(p + 4));
    ol_store_i64(p, timestamp);
    ol_store_i32(p + 8, 0);
    *size = (size_t)(p + 12 - value);
    return OL_OK;
}
