/* Changes that take effect, in log order: against the live state of each moment, from every offset, and with what is
 * missing. */
#include "history/change_feed.h"

#include "format/batch_write.h"
#include "format/record_put.h"
#include "partition_fixture.h"

enum { STEPS = 400, GROUPS = 4, NUMBERS = 5, PRODUCERS = 3, ROWS_MAX = 4000 };

static const char *const groups[GROUPS] = {"a", "ab", "b", ""};
static const char *const topics[2] = {"t", "topic"};

static const ol_column columns[] = {OL_COLUMN_LOG_PARTITION, OL_COLUMN_LOG_OFFSET, OL_COLUMN_EFFECTIVE_AT, OL_COLUMN_TIMESTAMP,
                                    OL_COLUMN_GROUP, OL_COLUMN_TOPIC, OL_COLUMN_PARTITION, OL_COLUMN_OFFSET,
                                    OL_COLUMN_METADATA};

/* ------------------------------------------------------------------------------------------------ what was given */

typedef struct given {
    int64_t log_offset;
    int64_t effective_at;
    char group[8];
    char topic[8];
    char metadata[24];
    int32_t partition;
    int64_t offset;             /* -1: a deletion */
} given;

typedef struct heard {
    given rows[ROWS_MAX];
    size_t count;
    ol_change_gap gaps[64];
    size_t gap_count;
} heard;

static int64_t int64_at(const ol_record_block *block, ol_column column, size_t row) {
    return ((const int64_t *)(const void *)block->arrays[column].data)[row];
}

static bool is_null(const ol_record_block *block, ol_column column, size_t row) {
    const ol_row_array *array = &block->arrays[column];
    return array->has_nulls && (array->valid[row >> 3] >> (row & 7) & 1) == 0;
}

static void text_at(const ol_record_block *block, ol_column column, size_t row, char *into, size_t size) {
    const ol_row_array *array = &block->arrays[column];
    int32_t start = array->ends[row], length = array->ends[row + 1] - start;
    OL_CHECK((size_t)length < size);
    memset(into, 0, size);
    if (length > 0) memcpy(into, array->data + start, (size_t)length);
}

static void hear_rows(heard *all, const ol_record_block *block) {
    for (size_t i = 0; i < block->count; i++) {
        OL_CHECK(all->count < ROWS_MAX);
        given *row = &all->rows[all->count++];
        memset(row, 0, sizeof *row);
        row->log_offset = int64_at(block, OL_COLUMN_LOG_OFFSET, i);
        row->effective_at = int64_at(block, OL_COLUMN_EFFECTIVE_AT, i);
        row->partition = ((const int32_t *)(const void *)block->arrays[OL_COLUMN_PARTITION].data)[i];
        row->offset = is_null(block, OL_COLUMN_OFFSET, i) ? -1 : int64_at(block, OL_COLUMN_OFFSET, i);
        text_at(block, OL_COLUMN_GROUP, i, row->group, sizeof row->group);
        text_at(block, OL_COLUMN_TOPIC, i, row->topic, sizeof row->topic);
        text_at(block, OL_COLUMN_METADATA, i, row->metadata, sizeof row->metadata);
    }
}

/* Reads to W in blocks of `capacity` rows. */
static void hear(ol_change_feed *feed, size_t capacity, heard *all) {
    ol_record_block block;
    ol_error error;
    int status;
    OL_CHECK_OK(ol_record_block_create(&block, columns, sizeof columns / sizeof *columns, capacity, &error), &error);
    do {
        status = ol_change_feed_read(feed, &block, &error);
        OL_CHECK(status == OL_OK || status == OL_END);
        hear_rows(all, &block);
        ol_record_block_clear(&block);
        if (feed->gap.below > 0) {
            OL_CHECK(status == OL_OK && feed->gap.from < feed->gap.below && all->gap_count < 64);
            all->gaps[all->gap_count++] = feed->gap;
        }
    } while (status == OL_OK);
    ol_record_block_free(&block);
}

static heard *hear_from(ol_partition *partition, int64_t offset, const ol_slice *watched, size_t count, size_t capacity) {
    heard *all = calloc(1, sizeof *all);
    ol_change_feed feed;
    ol_error error;
    OL_CHECK_OK(ol_change_feed_create(&feed, 0, watched, count, &error), &error);
    feed.partition = partition;
    OL_CHECK_OK(ol_change_feed_start(&feed, offset, -1, 0, &error), &error);
    hear(&feed, capacity, all);
    OL_CHECK_INT(feed.offset, ol_log_end(ol_partition_log(partition)));
    ol_change_feed_free(&feed);
    return all;
}

/* ------------------------------------------------------------------------------------------------ a partition's life */

static ol_partition_options small_segments(void) {
    ol_partition_options options = fixture_options(fresh_directory());
    options.log.config.segment_bytes = 16 << 10;
    options.batch_bytes_max = 8 << 10;
    return options;
}

static void commit_some(ol_partition *partition, int64_t producer_id) {
    ol_item items[4];
    ol_commit_result result;
    ol_error error;
    size_t count = 1 + ol_test_below(4);
    const char *group = groups[ol_test_below(GROUPS)];
    for (size_t i = 0; i < count; i++) {
        items[i] = position_item(group, topics[ol_test_below(2)], (int32_t)ol_test_below(NUMBERS), (int64_t)ol_test_below(1000));
        if (ol_test_below(5) == 0) items[i].metadata = text("some metadata");
        if (producer_id < 0 && ol_test_below(6) == 0) items[i].kind = OL_ITEM_POSITION_TOMBSTONE;
    }
    OL_CHECK_OK(ol_partition_commit(partition, items, count, producer_id, producer_id < 0 ? -1 : 0, &result, &error), &error);
}

static void step(ol_partition *partition, bool *open) {
    ol_commit_result result;
    ol_error error;
    size_t producer = ol_test_below(PRODUCERS);
    switch (ol_test_below(8)) {
        case 0:
            if (open[producer]) {
                end_transaction(partition, (int64_t)producer, ol_test_below(3) ? OL_CONTROL_COMMIT : OL_CONTROL_ABORT);
            }
            open[producer] = false;
            return;
        case 1:
        case 2:
        case 3:
            commit_some(partition, (int64_t)producer);
            open[producer] = true;
            return;
        case 4:
            if (ol_test_below(10) != 0) break;
            OL_CHECK_OK(ol_partition_delete_group(partition, text(groups[ol_test_below(GROUPS)]), false, &result, &error), &error);
            return;
        default:
            break;
    }
    commit_some(partition, -1);
}

static void live(ol_partition *partition) {
    bool open[PRODUCERS] = {false};
    for (size_t i = 0; i < STEPS; i++) step(partition, open);
}

/* ------------------------------------------------------------------------------------------------ the live state */

typedef struct mirror {
    int64_t values[GROUPS][2][NUMBERS];     /* -1: none */
} mirror;

static void follow(mirror *state, const given *row) {
    size_t group = 0, topic = 0;
    while (strcmp(groups[group], row->group) != 0) group++;
    while (strcmp(topics[topic], row->topic) != 0) topic++;
    state->values[group][topic][row->partition] = row->offset;
}

static void check_mirror(ol_partition *partition, const mirror *state) {
    for (size_t group = 0; group < GROUPS; group++) {
        for (size_t topic = 0; topic < 2; topic++) {
            for (int32_t number = 0; number < NUMBERS; number++) {
                OL_CHECK_INT(state->values[group][topic][number], fetch_one(partition, groups[group], topics[topic], number));
            }
        }
    }
}

OL_TEST(a_mirror_of_what_is_given_is_the_live_state_of_every_moment) {
    ol_partition_options options = small_segments();
    ol_partition *partition = open_partition(&options, true);
    bool open[PRODUCERS] = {false};
    mirror state;
    heard *all = calloc(1, sizeof *all);
    ol_change_feed feed;
    ol_error error;
    size_t followed = 0;
    memset(&state, 0xff, sizeof state);
    OL_CHECK_OK(ol_change_feed_create(&feed, 0, NULL, 0, &error), &error);
    feed.partition = partition;
    OL_CHECK_OK(ol_change_feed_start(&feed, 0, -1, 0, &error), &error);
    for (size_t i = 0; i < STEPS; i++) {
        step(partition, open);
        if (ol_test_below(3) == 0) continue;
        hear(&feed, 1 + ol_test_below(6), all);
        while (followed < all->count) follow(&state, &all->rows[followed++]);
        check_mirror(partition, &state);
        OL_CHECK_INT(feed.offset, ol_log_end(ol_partition_log(partition)));
    }
    OL_CHECK_INT(all->gap_count, 0);
    ol_change_feed_free(&feed);
    close_partition(partition);
    free(all);
    remove_fixture();
}

OL_TEST(a_feed_that_begins_anywhere_gives_the_rest_and_nothing_twice) {
    ol_partition_options options = small_segments();
    ol_partition *partition = open_partition(&options, true);
    live(partition);
    int64_t end = ol_log_end(ol_partition_log(partition));
    heard *whole = hear_from(partition, 0, NULL, 0, 4000);
    for (size_t i = 1; i < whole->count; i++) {
        OL_CHECK(whole->rows[i - 1].effective_at <= whole->rows[i].effective_at);
    }
    for (int64_t from = 0; from <= end; from += 1 + (int64_t)ol_test_below(5)) {
        heard *rest = hear_from(partition, from, NULL, 0, 1 + ol_test_below(50));
        size_t skipped = 0;
        while (skipped < whole->count && whole->rows[skipped].effective_at < from) skipped++;
        OL_CHECK_INT(rest->count, whole->count - skipped);
        OL_CHECK_INT(rest->gap_count, 0);
        OL_CHECK(memcmp(rest->rows, whole->rows + skipped, rest->count * sizeof *rest->rows) == 0);
        free(rest);
    }
    free(whole);
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_feed_of_some_groups_gives_theirs) {
    ol_partition_options options = small_segments();
    ol_partition *partition = open_partition(&options, true);
    live(partition);
    heard *whole = hear_from(partition, 0, NULL, 0, 100);
    ol_slice watched[] = {text("ab"), text(""), text("unknown")};
    heard *part = hear_from(partition, 0, watched, 3, 7);
    size_t count = 0;
    for (size_t i = 0; i < whole->count; i++) {
        const given *row = &whole->rows[i];
        if (strcmp(row->group, "ab") != 0 && strcmp(row->group, "") != 0) continue;
        OL_CHECK(count < part->count && memcmp(row, &part->rows[count++], sizeof *row) == 0);
    }
    OL_CHECK_INT(part->count, count);
    OL_CHECK(count > 0 && count < whole->count);
    free(whole);
    free(part);
    close_partition(partition);
    remove_fixture();
}

/* ------------------------------------------------------------------------------------------------ transactions */

OL_TEST(what_a_transaction_commits_counts_from_its_marker_unless_something_newer_came) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    commit_pending(partition, 1, "a", "t", 0, 10);      /* stays */
    commit_pending(partition, 1, "a", "t", 1, 11);      /* a plain value comes after it */
    commit_pending(partition, 1, "a", "t", 2, 12);      /* is deleted */
    commit_pending(partition, 1, "a", "t", 3, 13);      /* another transaction is newer, and commits first */
    commit_pending(partition, 1, "a", "t", 4, 14);      /* another transaction is newer, and commits later */
    commit_one(partition, "a", "t", 1, 21);
    delete_one(partition, "a", "t", 2);
    commit_pending(partition, 2, "a", "t", 3, 23);
    commit_pending(partition, 2, "a", "t", 0, 20);
    end_transaction(partition, 2, OL_CONTROL_COMMIT);   /* 9: also takes the place of producer 1's value of 0 */
    commit_pending(partition, 3, "a", "t", 4, 34);
    end_transaction(partition, 1, OL_CONTROL_COMMIT);   /* 11 */
    end_transaction(partition, 3, OL_CONTROL_COMMIT);   /* 12 */
    commit_pending(partition, 4, "a", "t", 0, 40);
    end_transaction(partition, 4, OL_CONTROL_ABORT);
    static const int64_t expected[][4] = {
        /* number, offset, log offset, effective at */
        {1, 21, 5, 5}, {2, -1, 6, 6}, {3, 23, 7, 9}, {0, 20, 8, 9}, {4, 14, 4, 11}, {4, 34, 10, 12},
    };
    for (size_t capacity = 1; capacity < 8; capacity++) {
        heard *all = hear_from(partition, 0, NULL, 0, capacity);
        OL_CHECK_INT(all->count, sizeof expected / sizeof *expected);
        for (size_t i = 0; i < all->count; i++) {
            OL_CHECK_INT(all->rows[i].partition, expected[i][0]);
            OL_CHECK_INT(all->rows[i].offset, expected[i][1]);
            OL_CHECK_INT(all->rows[i].log_offset, expected[i][2]);
            OL_CHECK_INT(all->rows[i].effective_at, expected[i][3]);
        }
        free(all);
    }
    close_partition(partition);
    remove_fixture();
}

OL_TEST(the_offset_covers_a_marker_only_when_all_of_its_values_were_given) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    for (int32_t number = 0; number < 5; number++) commit_pending(partition, 1, "a", "t", number, number);
    end_transaction(partition, 1, OL_CONTROL_COMMIT);
    commit_one(partition, "a", "t", 0, 9);
    ol_record_block block;
    ol_change_feed feed;
    ol_error error;
    OL_CHECK_OK(ol_record_block_create(&block, columns, sizeof columns / sizeof *columns, 2, &error), &error);
    OL_CHECK_OK(ol_change_feed_create(&feed, 0, NULL, 0, &error), &error);
    feed.partition = partition;
    OL_CHECK_OK(ol_change_feed_start(&feed, 0, -1, 0, &error), &error);
    for (int i = 0; i < 2; i++) {
        OL_CHECK_INT(ol_change_feed_read(&feed, &block, &error), OL_OK);
        OL_CHECK(feed.is_installing && block.count == 2);
        OL_CHECK_INT(feed.offset, 5);
        ol_record_block_clear(&block);
    }
    /* The read that gives the last value ends there: what follows is not of the transaction. */
    OL_CHECK_INT(ol_change_feed_read(&feed, &block, &error), OL_OK);
    OL_CHECK(!feed.is_installing && block.count == 1);
    OL_CHECK_INT(feed.offset, 6);
    OL_CHECK(!feed.has_state);
    ol_record_block_clear(&block);
    OL_CHECK_INT(ol_change_feed_read(&feed, &block, &error), OL_END);
    OL_CHECK_INT(block.count, 1);
    OL_CHECK_INT(feed.offset, 7);
    ol_record_block_free(&block);
    ol_change_feed_free(&feed);
    close_partition(partition);
    remove_fixture();
}

/* ------------------------------------------------------------------------------------------------ what is missing */

static size_t put_commit(uint8_t *start, int64_t base_offset, int32_t last_delta, int32_t records, int32_t first_delta) {
    uint8_t key[64], value[64];
    uint8_t *key_end = ol_offset_key_put(key, 1, text("a"), text("t"), 0);
    ol_offset_value commit = {.offset = 1, .commit_timestamp = 5, .expire_timestamp = -1, .leader_epoch = -1, .metadata = text("")};
    uint8_t *value_end = ol_offset_value_put(value, &commit, 3);
    uint8_t *p = start + OL_BATCH_OVERHEAD;
    for (int32_t i = 0; i < records; i++) {
        p = ol_record_put(p, 0, first_delta + i, ol_slice_of(key, (size_t)(key_end - key)), ol_slice_of(value, (size_t)(value_end - value)),
                          0, ol_slice_null());
    }
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, base_offset, 1700000000000 + base_offset);
    fields.last_offset_delta = last_delta;
    fields.record_count = records;
    ol_batch_seal(start, p, &fields);
    return (size_t)(p - start);
}

static void append(ol_partition *partition, int64_t base_offset, int32_t last_delta, int32_t records, int32_t first_delta) {
    uint8_t bytes[1024];
    ol_error error;
    size_t size = put_commit(bytes, base_offset, last_delta, records, first_delta);
    OL_CHECK_OK(ol_log_append(ol_partition_log(partition), bytes, size, &error), &error);
}

static ol_partition *partition_with_holes(void) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, false);
    ol_error error;
    append(partition, 0, 2, 3, 0);      /* 0 to 2 */
    append(partition, 5, 0, 1, 0);      /* 5; 3 and 4 are missing */
    append(partition, 6, 3, 2, 1);      /* 7 and 8; 6 and 9 are missing */
    append(partition, 10, 1, 0, 0);     /* none of 10 and 11 */
    append(partition, 12, 0, 1, 0);     /* 12 */
    OL_CHECK_OK(ol_partition_load(partition, &error), &error);
    return partition;
}

OL_TEST(missing_offsets_are_gaps_and_what_is_left_is_given) {
    ol_partition *partition = partition_with_holes();
    static const int64_t there[] = {0, 1, 2, 5, 7, 8, 12};
    for (int64_t from = 0; from <= 13; from++) {
        heard *all = hear_from(partition, from, NULL, 0, 1 + ol_test_below(3));
        size_t row = 0;
        for (size_t i = 0; i < sizeof there / sizeof *there; i++) {
            if (there[i] < from) continue;
            OL_CHECK(row < all->count);
            OL_CHECK_INT(all->rows[row++].log_offset, there[i]);
        }
        OL_CHECK_INT(all->count, row);
        for (int64_t offset = from; offset < 13; offset++) {
            bool is_there = false, is_in_gap = false;
            for (size_t i = 0; i < sizeof there / sizeof *there; i++) is_there |= there[i] == offset;
            for (size_t i = 0; i < all->gap_count; i++) {
                const ol_change_gap *gap = &all->gaps[i];
                OL_CHECK(!gap->is_damage && gap->from >= from && (i == 0 || gap->from >= all->gaps[i - 1].below));
                is_in_gap |= offset >= gap->from && offset < gap->below;
            }
            OL_CHECK(is_there || is_in_gap);
        }
        free(all);
    }
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_gap_stands_before_what_follows_it_and_what_is_known_is_none) {
    ol_partition *partition = partition_with_holes();
    ol_record_block block;
    ol_change_feed feed;
    ol_error error;
    OL_CHECK_OK(ol_record_block_create(&block, columns, sizeof columns / sizeof *columns, 100, &error), &error);
    OL_CHECK_OK(ol_change_feed_create(&feed, 0, NULL, 0, &error), &error);
    feed.partition = partition;
    OL_CHECK_OK(ol_change_feed_start(&feed, 0, -1, 0, &error), &error);
    OL_CHECK_INT(ol_change_feed_read(&feed, &block, &error), OL_OK);
    OL_CHECK_INT(block.count, 3);
    OL_CHECK_INT(feed.gap.from, 3);
    OL_CHECK_INT(feed.gap.below, 5);
    feed.known_below = 12;
    ol_record_block_clear(&block);
    OL_CHECK_INT(ol_change_feed_read(&feed, &block, &error), OL_END);
    OL_CHECK_INT(feed.gap.below, 0);
    OL_CHECK_INT(block.count, 4);
    ol_record_block_free(&block);
    ol_change_feed_free(&feed);
    close_partition(partition);
    remove_fixture();
}

static void flip_byte(int64_t position) {
    char path[400];
    snprintf(path, sizeof path, "%s/00000000000000000000.log", fixture_directory);
    FILE *file = fopen(path, "r+b");
    OL_CHECK(file != NULL && fseek(file, position, SEEK_SET) == 0);
    int byte = fgetc(file);
    OL_CHECK(byte >= 0 && fseek(file, position, SEEK_SET) == 0 && fputc(byte ^ 1, file) >= 0 && fclose(file) == 0);
}

OL_TEST(a_batch_that_cannot_be_read_is_a_gap) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    for (int64_t offset = 0; offset < 5; offset++) commit_one(partition, "a", "t", 0, offset);
    int64_t size = ol_log_size_bytes(ol_partition_log(partition)) / 5;
    flip_byte(2 * size + 70);
    heard *all = hear_from(partition, 0, NULL, 0, 10);
    OL_CHECK_INT(all->count, 4);
    OL_CHECK_INT(all->rows[2].log_offset, 3);
    OL_CHECK_INT(all->gap_count, 1);
    OL_CHECK_INT(all->gaps[0].from, 2);
    OL_CHECK_INT(all->gaps[0].below, 3);
    OL_CHECK(all->gaps[0].is_damage);
    free(all);
    ol_partition_abandon(partition);
    remove_fixture();
}

/* Three bytes that are no batch, before the third one of the segment. */
static void insert_bytes(void) {
    char path[400];
    uint8_t bytes[4096];
    snprintf(path, sizeof path, "%s/00000000000000000000.log", fixture_directory);
    FILE *file = fopen(path, "r+b");
    OL_CHECK(file != NULL);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    size_t position = 0;
    for (int i = 0; i < 2; i++) position += OL_BATCH_LOG_OVERHEAD + (size_t)ol_load_i32(bytes + position + OL_BATCH_AT_LENGTH);
    OL_CHECK(size < sizeof bytes && fseek(file, (long)position, SEEK_SET) == 0);
    OL_CHECK(fwrite("\xff\xff\xff", 1, 3, file) == 3);
    OL_CHECK(fwrite(bytes + position, 1, size - position, file) == size - position && fclose(file) == 0);
}

OL_TEST(a_feed_that_begins_after_bytes_that_are_no_batch_finds_what_follows_them) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    for (int64_t offset = 0; offset < 6; offset++) commit_one(partition, "a", "t", 0, offset);
    close_partition(partition);
    insert_bytes();
    options.log.writable = options.log.create = false;
    partition = open_partition(&options, true);
    for (int64_t from = 0; from <= 6; from++) {
        heard *all = hear_from(partition, from, NULL, 0, 1);
        OL_CHECK_INT(all->count, 6 - from);
        OL_CHECK_INT(all->gap_count, 0);
        free(all);
    }
    ol_partition_abandon(partition);
    remove_fixture();
}

/* The second batch says that it is six bytes longer; after the third come bytes that are no batch, and what an earlier log of
 * the same offsets left. */
static void lead_astray(void) {
    char path[400];
    uint8_t bytes[4096];
    snprintf(path, sizeof path, "%s/00000000000000000000.log", fixture_directory);
    FILE *file = fopen(path, "r+b");
    OL_CHECK(file != NULL);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    size_t second = OL_BATCH_LOG_OVERHEAD + (size_t)ol_load_i32(bytes + OL_BATCH_AT_LENGTH);
    ol_store_i32(bytes + second + OL_BATCH_AT_LENGTH, ol_load_i32(bytes + second + OL_BATCH_AT_LENGTH) + 6);
    memset(bytes + size, 0xff, 40);
    size += 40;
    for (int64_t offset = 8; offset < 11; offset++) size += put_commit(bytes + size, offset, 0, 1, 0);
    OL_CHECK(size < sizeof bytes && fseek(file, 0, SEEK_SET) == 0);
    OL_CHECK(fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

OL_TEST(a_damaged_header_does_not_lead_a_feed_to_what_is_no_part_of_the_log) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, false);
    append(partition, 0, 2, 3, 0);      /* 0 to 2 */
    append(partition, 3, 4, 5, 0);      /* 3 to 7, which become unreadable */
    append(partition, 8, 5, 6, 0);      /* 8 to 13 */
    close_partition(partition);
    lead_astray();
    options.log.writable = options.log.create = false;
    partition = open_partition(&options, true);
    for (size_t capacity = 1; capacity < 12; capacity += 5) {
        heard *all = hear_from(partition, 0, NULL, 0, capacity);
        OL_CHECK_INT(all->count, 9);
        for (size_t i = 0; i < all->count; i++) OL_CHECK_INT(all->rows[i].log_offset, (int64_t)(i < 3 ? i : i + 5));
        OL_CHECK_INT(all->gap_count, 1);
        OL_CHECK(all->gaps[0].from == 3 && all->gaps[0].below == 8 && all->gaps[0].is_damage);
        free(all);
    }
    heard *rest = hear_from(partition, 8, NULL, 0, 10);
    OL_CHECK_INT(rest->count, 6);
    free(rest);
    ol_partition_abandon(partition);
    remove_fixture();
}

/* ------------------------------------------------------------------------------------------------ W and truncation */

OL_TEST(nothing_at_or_above_w_is_given_and_a_cut_is_noticed) {
    ol_partition_options options = fixture_options(fresh_directory());
    options.replicated = options.log.replicated = true;
    ol_partition *partition = open_partition(&options, true);
    ol_error error;
    OL_CHECK_OK(ol_partition_become_leader(partition, 1, false, &error), &error);
    OL_CHECK_OK(ol_partition_advance(partition, 1, 0, &error), &error);
    for (int64_t offset = 0; offset < 4; offset++) commit_one(partition, "a", "t", 0, offset);
    ol_change_feed feed;
    heard *all = calloc(1, sizeof *all);
    OL_CHECK_OK(ol_change_feed_create(&feed, 0, NULL, 0, &error), &error);
    feed.partition = partition;
    OL_CHECK_OK(ol_change_feed_start(&feed, 0, -1, 0, &error), &error);
    hear(&feed, 10, all);
    OL_CHECK_INT(all->count, 0);
    OL_CHECK_OK(ol_partition_advance(partition, 1, 3, &error), &error);
    hear(&feed, 10, all);
    OL_CHECK_INT(all->count, 3);
    OL_CHECK_INT(feed.offset, 3);
    OL_CHECK_INT(feed.epoch, 1);
    OL_CHECK(ol_change_feed_is_current(&feed));
    OL_CHECK_OK(ol_partition_become_follower(partition, 2, &error), &error);
    OL_CHECK_OK(ol_partition_truncate(partition, 2, 3, &error), &error);
    OL_CHECK(!ol_change_feed_is_current(&feed));
    ol_change_feed_free(&feed);
    ol_partition_abandon(partition);
    free(all);
    remove_fixture();
}

OL_TEST_MAIN()
