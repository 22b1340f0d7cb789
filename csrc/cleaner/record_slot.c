#include "cleaner/record_slot.h"


int64_t ol_clean_hold_end(const ol_clean_hold *holds, size_t count, ol_slice group) {
    int64_t end = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const ol_clean_hold *hold = &holds[i];
        if (hold->end >= end || hold->group.size > group.size) continue;
        if (!hold->is_prefix && hold->group.size != group.size) continue;
        if (ol_bytes_equal(hold->group.data, group.data, hold->group.size)) end = hold->end;
    }
    return end;
}

uint32_t ol_clean_see_holds(const ol_clean_options *options, ol_slice group, int64_t last_offset) {
    int64_t end = ol_clean_hold_end(options->holds, options->hold_count, group);
    if (end == INT64_MAX) return 0;
    return last_offset >= end ? OL_CLEAN_HELD : OL_CLEAN_WATCHED;
}

uint32_t ol_clean_see_other(const ol_key_hasher *hasher, const ol_clean_options *options, const ol_record *record, int64_t last_offset,
                            ol_clean_row *row) {
    ol_key key;
    ol_error ignored;
    row->key = (ol_hash128){0, 0};
    if (record->key.data == NULL) return OL_CLEAN_KEYLESS;
    if (ol_key_decode(record->key, &key, &ignored) != OL_OK) return OL_CLEAN_UNREADABLE;
    /* Those of offset records that can be read were seen before. */
    OL_ASSERT(!key.known || (uint16_t)key.type > OL_KEY_OFFSET_COMMIT);
    row->key = ol_key_hash(hasher, record->key.data, record->key.size, 1);
    if (!key.known || options->hold_count == 0) return 0;
    return ol_clean_see_holds(options, key.group, last_offset);
}

bool ol_clean_is_sound(const ol_record *record) {
    ol_offset_value value;
    ol_error ignored;
    return ol_offset_value_decode(record->value, ol_load_i16(record->key.data), &value, &ignored) == OL_OK;
}
