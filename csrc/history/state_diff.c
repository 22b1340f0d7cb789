/* Compares two states key by key, in one call or while commits continue. */
#include "history/state_diff.h"

#include <stdlib.h>
#include <string.h>

enum { LOCKED_KEYS = 512 };     /* compared under one hold of a live partition's table lock */
enum { KEY, LEFT, RIGHT };      /* indices into ol_difference.owned */

/* ------------------------------------------------------------------------ keys and their values */

/* The name of the position that was looked up last, so that positions of the same pair are hashed
 * once.  Slices are compared by their addresses: in one table equal strings are one string. */
typedef struct name_cache {
    ol_slice group;
    ol_slice topic;
    ol_pair_name name;
    bool is_filled;
} name_cache;

static const ol_pair_name *name_in(const ol_table *table, const ol_difference *key,
                                   name_cache *cache) {
    if (!cache->is_filled || cache->group.data != key->group.data ||
        cache->topic.data != key->topic.data || cache->group.size != key->group.size ||
        cache->topic.size != key->topic.size) {
        cache->name = ol_table_name(table, key->group, ol_table_group_hash(table, key->group),
                                    key->topic);
        cache->group = key->group;
        cache->topic = key->topic;
        cache->is_filled = true;
    }
    return &cache->name;
}

static ol_compared of_record(const ol_group_record *record) {
    return (ol_compared){
        .is_there = true,
        .value = {.log_offset = record->log_offset, .commit_timestamp = record->timestamp},
        .value_size = record->value.size,
        .value_hash = ol_xxh3_128(record->value.data, record->value.size),
    };
}

/* Looks a key up in a state; the result borrows from the state. */
static ol_compared look_up(const ol_state *state, const ol_difference *key, name_cache *cache) {
    ol_compared found = {0};
    ol_group_record record;
    switch (key->kind) {
        case OL_DIGEST_POSITION:
            found.is_there = ol_table_get(state->table, name_in(state->table, key, cache),
                                          key->partition, &found.value);
            break;
        case OL_DIGEST_PENDING:
            found.is_there = ol_pending_get(state->pending, key->producer_id,
                                            name_in(state->table, key, cache), key->partition,
                                            &found.value);
            break;
        default:
            if (ol_group_records_get(state->group_records, key->key, &record)) {
                found = of_record(&record);
            }
    }
    return found;
}

static bool is_same_position(const ol_position_value *a, const ol_position_value *b) {
    if (a->offset != b->offset || a->leader_epoch != b->leader_epoch ||
        a->commit_timestamp != b->commit_timestamp || a->expire_timestamp != b->expire_timestamp ||
        a->metadata.size != b->metadata.size) {
        return false;
    }
    if (a->metadata.size > 0 && memcmp(a->metadata.data, b->metadata.data, a->metadata.size) != 0) {
        return false;
    }
    if (a->topic_id == NULL || b->topic_id == NULL) return a->topic_id == b->topic_id;
    return memcmp(a->topic_id, b->topic_id, OL_TOPIC_ID_SIZE) == 0;
}

static bool is_same(const ol_difference *at, bool physical) {
    const ol_compared *a = &at->left, *b = &at->right;
    if (!a->is_there || !b->is_there) return a->is_there == b->is_there;
    if (physical && a->value.log_offset != b->value.log_offset) return false;
    if (at->kind != OL_DIGEST_GROUP_RECORD) return is_same_position(&a->value, &b->value);
    if (physical && a->value.commit_timestamp != b->value.commit_timestamp) return false;
    return a->value_size == b->value_size &&
           memcmp(&a->value_hash, &b->value_hash, sizeof a->value_hash) == 0;
}

/* ------------------------------------------------------------------------------------- the list */

static void free_difference(ol_difference *difference) {
    for (int i = 0; i < 3; i++) free(difference->owned[i]);
}

void ol_differences_free(ol_differences *differences) {
    for (size_t i = 0; i < differences->count; i++) free_difference(&differences->items[i]);
    free(differences->items);
    memset(differences, 0, sizeof *differences);
}

static ol_slice copy_slice(uint8_t **to, ol_slice from) {
    if (from.size > 0) memcpy(*to, from.data, from.size);
    ol_slice copy = ol_slice_of(*to, from.size);
    *to += from.size;
    return copy;
}

static int allocate(uint8_t **block, size_t size, ol_error *error) {
    *block = malloc(size + 1);
    return *block != NULL ? OL_OK : ol_fail(error, OL_NO_MEMORY, "no memory for the differences");
}

/* Copies the bytes of a key, so that it owns them. */
static int own_key(ol_difference *difference, ol_error *error) {
    uint8_t *p = NULL;
    bool is_record = difference->kind == OL_DIGEST_GROUP_RECORD;
    int status = allocate(
        &p, is_record ? difference->key.size : difference->group.size + difference->topic.size,
        error);
    if (status != OL_OK) return status;
    difference->owned[KEY] = p;
    if (is_record) {
        const uint8_t *from = difference->key.data;
        difference->key = copy_slice(&p, difference->key);
        difference->group.data = difference->key.data + (difference->group.data - from);
    } else {
        difference->group = copy_slice(&p, difference->group);
        difference->topic = copy_slice(&p, difference->topic);
    }
    return OL_OK;
}

/* Replaces one side by a copy with bytes of its own. */
static int own_side(ol_difference *difference, int which, ol_compared side, ol_error *error) {
    ol_compared *target = which == LEFT ? &difference->left : &difference->right;
    size_t topic_id_size = side.value.topic_id != NULL ? OL_TOPIC_ID_SIZE : 0;
    uint8_t *p = NULL;
    int status = allocate(&p, side.value.metadata.size + topic_id_size, error);
    if (status != OL_OK) return status;
    free(difference->owned[which]);
    difference->owned[which] = p;
    *target = side;
    target->value.metadata = copy_slice(&p, side.value.metadata);
    if (topic_id_size > 0) {
        target->value.topic_id =
            copy_slice(&p, ol_slice_of(side.value.topic_id, topic_id_size)).data;
    }
    return OL_OK;
}

static int make_room(ol_differences *found, ol_error *error) {
    if (found->count < found->capacity) return OL_OK;
    size_t capacity = found->capacity == 0 ? 16 : 2 * found->capacity;
    ol_difference *items = realloc(found->items, capacity * sizeof *items);
    if (items == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory to name %zu keys that differ", capacity);
    }
    found->items = items;
    found->capacity = capacity;
    return OL_OK;
}

/* Adds a copy of a difference that borrows. */
static int add(ol_differences *found, const ol_difference *borrowed, ol_error *error) {
    if (found->count >= found->limit) {
        found->left_out++;
        return OL_OK;
    }
    int status = make_room(found, error);
    if (status != OL_OK) return status;
    ol_difference *item = &found->items[found->count];
    *item = *borrowed;
    memset(item->owned, 0, sizeof item->owned);
    status = own_key(item, error);
    if (status == OL_OK) status = own_side(item, LEFT, borrowed->left, error);
    if (status == OL_OK) status = own_side(item, RIGHT, borrowed->right, error);
    if (status == OL_OK) {
        found->count++;
    } else {
        free_difference(item);
    }
    return status;
}

static int compare_slices(ol_slice a, ol_slice b) {
    size_t size = a.size < b.size ? a.size : b.size;
    int order = size > 0 ? memcmp(a.data, b.data, size) : 0;
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static int compare_keys(const void *one, const void *other) {
    const ol_difference *a = one, *b = other;
    int order = (a->kind > b->kind) - (a->kind < b->kind);
    if (order == 0) order = (a->producer_id > b->producer_id) - (a->producer_id < b->producer_id);
    if (order == 0) order = compare_slices(a->group, b->group);
    if (order == 0) order = compare_slices(a->topic, b->topic);
    if (order == 0) order = (a->partition > b->partition) - (a->partition < b->partition);
    return order != 0 ? order : compare_slices(a->key, b->key);
}

static void sort(ol_differences *differences) {
    if (differences->count > 1) {
        qsort(differences->items, differences->count, sizeof *differences->items, compare_keys);
    }
}

/* ---------------------------------------------------------------------------------------- walks */

/* A walk over the keys of a state, positions first. */
typedef struct key_walk {
    ol_table_cursor positions;
    ol_pending_cursor pending;
    size_t records;
    bool has_positions;         /* not all of them were walked */
} key_walk;

static void set_position(ol_difference *key, unsigned kind, int64_t producer_id,
                         const ol_table_row *row, ol_compared *side) {
    *key = (ol_difference){.kind = kind,
                           .producer_id = producer_id,
                           .group = row->group,
                           .topic = row->topic,
                           .partition = row->partition};
    *side = (ol_compared){.is_there = true, .value = row->value};
}

/* Returns the next key and its side, both borrowed. */
static bool next_key(const ol_state *state, key_walk *walk, ol_difference *key, ol_compared *side) {
    ol_table_row row;
    ol_group_record record;
    int64_t producer_id;
    if (walk->has_positions) {
        if (ol_table_next(state->table, &walk->positions, &row)) {
            set_position(key, OL_DIGEST_POSITION, -1, &row, side);
            return true;
        }
        walk->has_positions = false;
    }
    if (ol_pending_next(state->pending, &walk->pending, &producer_id, &row)) {
        set_position(key, OL_DIGEST_PENDING, producer_id, &row, side);
        return true;
    }
    if (!ol_group_records_next(state->group_records, &walk->records, &record)) return false;
    *key = (ol_difference){.kind = OL_DIGEST_GROUP_RECORD,
                           .producer_id = -1,
                           .group = record.group,
                           .key = record.key};
    *side = of_record(&record);
    return true;
}

int ol_state_diff(const ol_state *left, const ol_state *right, bool physical, ol_differences *found,
                  ol_error *error) {
    ol_difference at;
    ol_compared side;
    name_cache cache = {0};
    int status = OL_OK;
    for (key_walk walk = {.has_positions = true};
         status == OL_OK && next_key(left, &walk, &at, &side);) {
        at.left = side;
        at.right = look_up(right, &at, &cache);
        if (!is_same(&at, physical)) status = add(found, &at, error);
    }
    cache.is_filled = false;
    for (key_walk walk = {.has_positions = true};
         status == OL_OK && next_key(right, &walk, &at, &side);) {
        at.right = side;
        at.left = look_up(left, &at, &cache);
        if (!at.left.is_there) status = add(found, &at, error);
    }
    sort(found);
    return status;
}

/* ----------------------------------------------------------------------------- a live partition */

typedef struct live_comparison {
    ol_partition *live;
    const ol_state *replayed;
    int64_t cut;
    bool physical;
    ol_differences *found;
    name_cache live_names;
    name_cache replayed_names;
} live_comparison;

/* Compares keys of the replay with the live state.  Sets *more if some are left. */
static int compare_replayed(live_comparison *work, const ol_state *live, key_walk *walk, bool *more,
                            ol_error *error) {
    ol_difference at;
    ol_compared side;
    int status = OL_OK;
    for (int i = 0; i < LOCKED_KEYS && status == OL_OK; i++) {
        *more = next_key(work->replayed, walk, &at, &side);
        if (!*more) break;
        at.right = side;
        at.left = look_up(live, &at, &work->live_names);
        if (at.left.is_there && at.left.value.log_offset >= work->cut) continue;
        if (!is_same(&at, work->physical)) status = add(work->found, &at, error);
    }
    return status;
}

/* Adds a key of the live state that the replay does not have. */
static int consider_live(live_comparison *work, ol_difference *at, const ol_compared *side,
                         ol_error *error) {
    if (side->value.log_offset >= work->cut) return OL_OK;
    at->left = *side;
    at->right = look_up(work->replayed, at, &work->replayed_names);
    return at->right.is_there ? OL_OK : add(work->found, at, error);
}

/* Compares positions group by group, because only that walk can continue after the table has
 * changed. */
static int compare_live_groups(live_comparison *work, const ol_state *live, ol_table_cursor *groups,
                               bool *more, ol_error *error) {
    int status = OL_OK;
    ol_slice group;
    uint64_t positions;
    ol_table_renew(live->table, groups);
    for (uint64_t seen = 0; seen < LOCKED_KEYS && status == OL_OK; seen += positions) {
        *more = ol_table_next_group(live->table, groups, &group, &positions);
        if (!*more) break;
        ol_table_cursor cursor = {0};
        ol_table_row row;
        uint64_t hash = ol_table_group_hash(live->table, group);
        while (status == OL_OK && ol_table_next_of_group(live->table, group, hash, &cursor, &row)) {
            ol_difference at;
            ol_compared side;
            set_position(&at, OL_DIGEST_POSITION, -1, &row, &side);
            status = consider_live(work, &at, &side, error);
        }
    }
    return status;
}

/* Compares group records.  A record keeps its number as long as it exists, so the walk skips none
 * when others are added and removed between two holds of the lock. */
static int compare_live_records(live_comparison *work, const ol_state *live, size_t *records,
                                bool *more, ol_error *error) {
    ol_group_record record;
    int status = OL_OK;
    for (int i = 0; i < LOCKED_KEYS && status == OL_OK; i++) {
        *more = ol_group_records_next(live->group_records, records, &record);
        if (!*more) break;
        ol_difference at = {.kind = OL_DIGEST_GROUP_RECORD,
                            .producer_id = -1,
                            .group = record.group,
                            .key = record.key};
        ol_compared side = of_record(&record);
        status = consider_live(work, &at, &side, error);
    }
    return status;
}

/* Takes the writer lock, so that the state, the positions and the log end do not change; reads of
 * the state continue.  After a failure the lock is not held. */
static int freeze(ol_partition *live, const ol_state **state, ol_log_view **view, ol_error *error) {
    if (view != NULL) *view = NULL;
    ol_partition_view ignored;
    ol_partition_lock_writer(live, &ignored);
    /* The readers' lock is taken only for its check of the role. */
    int status = ol_partition_lock_state(live, state, error);
    if (status == OL_OK) {
        ol_log *log = ol_partition_log(live);
        ol_partition_unlock_state(live);
        if (view != NULL && ol_log_is_writable(log)) status = ol_log_view_open(log, view, error);
    }
    if (status != OL_OK) ol_partition_unlock_writer(live);
    return status;
}

static int64_t thaw(ol_partition *live) {
    ol_positions positions;
    ol_partition_positions(live, &positions);
    ol_partition_unlock_writer(live);
    return positions.applied;
}

/* Pending values move when a transaction begins or ends, so commits wait for the whole walk, as for
 * a digest. */
static int compare_live_pending(live_comparison *work, ol_error *error) {
    const ol_state *live;
    ol_pending_cursor cursor = {0};
    ol_table_row row;
    int64_t producer_id;
    int status = freeze(work->live, &live, NULL, error);
    if (status != OL_OK) return status;
    while (status == OL_OK && ol_pending_next(live->pending, &cursor, &producer_id, &row)) {
        ol_difference at;
        ol_compared side;
        set_position(&at, OL_DIGEST_PENDING, producer_id, &row, &side);
        status = consider_live(work, &at, &side, error);
    }
    (void)thaw(work->live);
    return status;
}

int ol_state_diff_live(ol_partition *live, const ol_state *replayed, int64_t cut, bool physical,
                       ol_differences *found, ol_error *error) {
    live_comparison work = {
        .live = live, .replayed = replayed, .cut = cut, .physical = physical, .found = found};
    key_walk replayed_walk = {.has_positions = true};
    ol_table_cursor groups = {0};
    size_t records = 0;
    int status = compare_live_pending(&work, error);
    for (int step = 0; step < 3; step++) {
        for (bool more = true; more && status == OL_OK;) {
            const ol_state *state;
            status = ol_partition_lock_state(live, &state, error);
            if (status != OL_OK) break;
            /* A string may have been released, and another one may now be at its address. */
            work.live_names.is_filled = work.replayed_names.is_filled = false;
            if (step == 0) status = compare_replayed(&work, state, &replayed_walk, &more, error);
            if (step == 1) status = compare_live_groups(&work, state, &groups, &more, error);
            if (step == 2) status = compare_live_records(&work, state, &records, &more, error);
            ol_partition_unlock_state(live);
        }
    }
    return status;
}

static int read_sides(const ol_state *state, int which, ol_differences *differences,
                      ol_error *error) {
    int status = OL_OK;
    for (size_t i = 0; i < differences->count && status == OL_OK; i++) {
        ol_difference *item = &differences->items[i];
        name_cache cache = {0};
        status = own_side(item, which, look_up(state, item, &cache), error);
    }
    return status;
}

int ol_state_diff_cut(ol_partition *live, bool physical, ol_digest *digest, int64_t *applied,
                      ol_log_view **view, ol_error *error) {
    const ol_state *state;
    int status = freeze(live, &state, view, error);
    if (status != OL_OK) return status;
    ol_state_digest(state, physical, digest);
    *applied = thaw(live);
    return OL_OK;
}

int ol_state_diff_read_live(ol_partition *live, ol_differences *differences, int64_t *applied,
                            ol_log_view **view, ol_error *error) {
    const ol_state *state;
    int status = freeze(live, &state, view, error);
    if (status != OL_OK) return status;
    status = read_sides(state, LEFT, differences, error);
    *applied = thaw(live);
    if (status != OL_OK && view != NULL) {
        ol_log_view_close(*view);
        *view = NULL;
    }
    return status;
}

int ol_state_diff_settle(const ol_state *right, bool physical, ol_differences *differences,
                         ol_error *error) {
    int status = read_sides(right, RIGHT, differences, error);
    if (status != OL_OK) return status;
    sort(differences);
    size_t kept = 0;
    for (size_t i = 0; i < differences->count; i++) {
        ol_difference *item = &differences->items[i];
        bool is_again = kept > 0 && compare_keys(&differences->items[kept - 1], item) == 0;
        if (is_again || is_same(item, physical)) {
            free_difference(item);
        } else {
            differences->items[kept++] = *item;
        }
    }
    differences->count = kept;
    return OL_OK;
}
