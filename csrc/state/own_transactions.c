/* state/own_transactions.c: an unsorted array of producer ids. */
#include "state/own_transactions.h"

#include <stdlib.h>

#include "base/bytes.h"

void ol_own_transactions_free(ol_own_transactions *own) {
    free(own->ids);
    *own = (ol_own_transactions){NULL, 0, 0};
}

int ol_own_transactions_open(ol_own_transactions *own, int64_t producer_id, ol_error *error) {
    for (size_t i = 0; i < own->count; i++) {
        if (own->ids[i] == producer_id) return OL_OK;
    }
    if (own->count == own->capacity) {
        size_t capacity = own->capacity * 2 + 4;
        int64_t *ids = realloc(own->ids, capacity * sizeof *ids);
        if (ids == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for an open transaction");
        own->ids = ids;
        own->capacity = capacity;
    }
    own->ids[own->count++] = producer_id;
    return OL_OK;
}

void ol_own_transactions_close(ol_own_transactions *own, int64_t producer_id) {
    for (size_t i = 0; i < own->count; i++) {
        if (own->ids[i] != producer_id) continue;
        own->ids[i] = own->ids[--own->count];
        return;
    }
}

bool ol_own_transactions_marks(const ol_record *record) {
    const uint8_t *cursor = record->headers.data, *limit = cursor + record->headers.size;
    ol_slice key, value,
        wanted = ol_slice_of(OL_HEADER_TRANSACTION, sizeof OL_HEADER_TRANSACTION - 1);
    ol_error ignored;
    for (int32_t i = 0; i < record->header_count; i++) {
        if (ol_record_header_next(&cursor, limit, &key, &value, &ignored) != OL_OK) return false;
        if (ol_slice_equal(key, wanted)) return true;
    }
    return false;
}
