/* Reads the group records of the log. */
#include "retention/group_view.h"

#include <string.h>

#include "base/bytes.h"
#include "format/group_schema.h"
#include "format/offset_record.h"

/* The meaning of the types of keys (docs/format/records.md §3.1, docs/format/brokers.md §15.1). */
typedef struct type_meaning {
    bool known;
    bool of_member;
    ol_group_kind kind;
} type_meaning;

static const type_meaning meanings[OL_KEY_LAST_KNOWN + 1] = {
    [2] = {true, false, OL_GROUP_CLASSIC},   [3] = {true, false, OL_GROUP_CONSUMER},
    [4] = {true, false, OL_GROUP_CONSUMER},  [5] = {true, true, OL_GROUP_CONSUMER},
    [6] = {true, false, OL_GROUP_CONSUMER},  [7] = {true, true, OL_GROUP_CONSUMER},
    [8] = {true, true, OL_GROUP_CONSUMER},   [10] = {true, true, OL_GROUP_SHARE},
    [11] = {true, false, OL_GROUP_SHARE},    [12] = {true, false, OL_GROUP_SHARE},
    [13] = {true, true, OL_GROUP_SHARE},     [14] = {true, true, OL_GROUP_SHARE},
    [15] = {true, false, OL_GROUP_SHARE},    [16] = {true, false, OL_GROUP_CONSUMER},
    [17] = {true, false, OL_GROUP_CONSUMER}, [19] = {true, true, OL_GROUP_CONSUMER},
    [20] = {true, false, OL_GROUP_CONSUMER}, [21] = {true, true, OL_GROUP_CONSUMER},
    [22] = {true, true, OL_GROUP_CONSUMER},  [23] = {true, false, OL_GROUP_CONSUMER},
};

/* The fields of a GroupMetadata value that retention needs. */
typedef struct classic_group {
    const ol_schema *schema;
    ol_slice protocol_type;
    int64_t state_timestamp;
    int32_t members;
} classic_group;

static bool is_named(const ol_field *field, const char *name) {
    return field != NULL && strcmp(field->name, name) == 0;
}

static int take_bytes(void *context, const ol_field *field, ol_slice value,
                      ol_error *error OL_UNUSED) {
    if (is_named(field, "protocolType")) ((classic_group *)context)->protocol_type = value;
    return OL_OK;
}

static int take_integer(void *context, const ol_field *field, int64_t value,
                        ol_error *error OL_UNUSED) {
    if (is_named(field, "currentStateTimestamp")) {
        ((classic_group *)context)->state_timestamp = value;
    }
    return OL_OK;
}

static int take_array(void *context, const ol_field *field, int32_t count,
                      ol_error *error OL_UNUSED) {
    if (is_named(field, "members")) ((classic_group *)context)->members = count;
    return OL_OK;
}

static int decode_classic(ol_slice value, classic_group *group, ol_error *error) {
    *group = (classic_group){.protocol_type = ol_slice_of("", 0), .state_timestamp = -1};
    if (value.size < 2) {
        return ol_fail(error, OL_CORRUPT,
                       "the value of a group record is too short for its version");
    }
    const ol_schema_visitor visitor = {
        .bytes = take_bytes, .integer = take_integer, .begin_array = take_array, .context = group};
    return ol_schema_decode(ol_schema_of_value(OL_KEY_GROUP_METADATA), ol_load_i16(value.data),
                            ol_slice_of(value.data + 2, value.size - 2), &visitor, NULL, error);
}

static void read_classic(ol_slice value, ol_group_view *view) {
    static const char consumer[] = "consumer";
    classic_group group;
    ol_error ignored;
    if (decode_classic(value, &group, &ignored) != OL_OK) {
        view->is_held = true;
        return;
    }
    bool has_members = group.members > 0;
    view->kind = group.protocol_type.size == 0 && !has_members ? OL_GROUP_SIMPLE : OL_GROUP_CLASSIC;
    view->is_consumer_protocol = ol_slice_equal(group.protocol_type,
                                                ol_slice_of(consumer, sizeof consumer - 1));
    view->state_timestamp = group.state_timestamp;
    if (has_members) view->is_empty = false;
}

static void read_record(const ol_group_record *record, bool is_newest, ol_group_view *view) {
    ol_key key;
    ol_error ignored;
    int status = ol_key_decode(record->key, &key, &ignored);
    OL_ASSERT(status == OL_OK && key.known);
    const type_meaning *meaning = &meanings[key.type];
    OL_ASSERT(meaning->known);
    if (meaning->of_member) view->is_empty = false;
    if (is_newest) view->kind = meaning->kind;
    if (key.type != OL_KEY_GROUP_METADATA) return;
    /* Even if an upgrade has made this record stale, it still says which members the group had. */
    ol_group_view classic = ol_group_view_simple();
    read_classic(record->value, &classic);
    view->is_held |= classic.is_held;
    view->is_empty &= classic.is_empty;
    if (!is_newest) return;
    view->kind = classic.kind;
    view->is_consumer_protocol = classic.is_consumer_protocol;
    view->state_timestamp = classic.state_timestamp;
}

bool ol_group_view_read(const ol_group_records *records, ol_slice group, ol_group_view *view) {
    *view = ol_group_view_simple();
    size_t cursor = 0;
    bool found = false;
    int64_t newest = 0;
    ol_group_record record;
    while (!(view->is_held || !view->is_empty) &&
           ol_group_records_next_of_group(records, group, &cursor, &record)) {
        bool is_newest = !found || record.log_offset > newest;
        read_record(&record, is_newest, view);
        if (is_newest) newest = record.log_offset;
        found = true;
    }
    if (!view->is_empty) view->is_held = true;
    return found;
}
