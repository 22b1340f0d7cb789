#include "state/pending.h"
#include "ol_test_table.h"

typedef struct fixture {
    ol_table *table;
    ol_pending *pending;
    ol_pair_name name;
} fixture;

static fixture begin(void) {
    fixture f;
    ol_error error;
    OL_CHECK_OK(ol_table_create(&f.table, &error), &error);
    OL_CHECK_OK(ol_pending_create(f.table, &f.pending, &error), &error);
    f.name = name_pair(f.table, "g", "orders");
    return f;
}

static void end(fixture *f) {
    ol_table_verify(f->table);
    ol_pending_destroy(f->pending);
    ol_table_verify(f->table);
    ol_table_destroy(f->table);
}

static ol_position_value position(int64_t offset, int64_t log_offset) {
    return (ol_position_value){.offset = offset, .log_offset = log_offset, .expire_timestamp = -1, .metadata = text("m")};
}

static void add(fixture *f, int64_t producer_id, const ol_pair_name *name, int32_t partition, int64_t offset, int64_t log_offset) {
    ol_error error;
    ol_reservation reservation;
    ol_position_value value = position(offset, log_offset);
    OL_CHECK_OK(ol_pending_reserve(f->pending, producer_id, 1, &error), &error);
    OL_CHECK_OK(ol_table_reserve(f->table, name, partition, &value, &reservation, &error), &error);
    ol_pending_add(f->pending, producer_id, &reservation, &value);
}

static void put(fixture *f, int32_t partition, int64_t offset, int64_t log_offset) {
    ol_error error;
    ol_position_value value = position(offset, log_offset);
    OL_CHECK_OK(ol_table_put(f->table, &f->name, partition, &value, &error), &error);
}

/* -1 for none. */
static int64_t committed(const fixture *f, int32_t partition) {
    ol_position_value value;
    return ol_table_get(f->table, &f->name, partition, &value) ? value.offset : -1;
}

static bool has_group(const fixture *f, const char *group) {
    return ol_pending_has_group(f->pending, text(group), ol_table_group_hash(f->table, text(group)));
}

OL_TEST(trap_14_plain_and_transactional_order) {
    fixture f = begin();
    add(&f, 4000, &f.name, 3, 50, 103);
    put(&f, 3, 60, 104);
    OL_CHECK(ol_pending_has(f.pending, &f.name, 3));
    ol_table_row row;
    size_t cursor = 0;
    OL_CHECK(!ol_pending_next_value(f.pending, 4000, &cursor, &row));      /* a COMMIT would not install it */
    OL_CHECK_INT(ol_pending_commit(f.pending, 4000), 0);
    OL_CHECK_INT(committed(&f, 3), 60);
    end(&f);
}

OL_TEST(trap_15_tombstone_with_open_transaction) {
    fixture f = begin();
    add(&f, 7, &f.name, 3, 50, 103);
    OL_CHECK(ol_pending_has(f.pending, &f.name, 3) && has_group(&f, "g"));
    ol_table_remove(f.table, &f.name, 3, 104);
    OL_CHECK(!ol_pending_has(f.pending, &f.name, 3) && !has_group(&f, "g"));
    ol_hash128 digest = ol_pending_digest(f.pending, false);
    OL_CHECK(digest.low == 0 && digest.high == 0);
    OL_CHECK_INT(ol_pending_commit(f.pending, 7), 0);
    OL_CHECK_INT(committed(&f, 3), -1);
    OL_CHECK_INT(ol_table_count(f.table), 0);
    end(&f);
}

OL_TEST(a_tombstone_erases_also_what_a_plain_value_covers_again) {
    fixture f = begin();
    add(&f, 7, &f.name, 3, 50, 103);
    ol_table_remove(f.table, &f.name, 3, 104);
    put(&f, 3, 60, 105);
    OL_CHECK(!ol_pending_has(f.pending, &f.name, 3));
    OL_CHECK_INT(ol_pending_commit(f.pending, 7), 0);
    OL_CHECK_INT(committed(&f, 3), 60);
    end(&f);
}

OL_TEST(pending_again_after_a_tombstone_by_the_same_producer) {
    fixture f = begin();
    add(&f, 7, &f.name, 3, 50, 103);
    ol_table_remove(f.table, &f.name, 3, 104);
    add(&f, 7, &f.name, 3, 51, 105);
    OL_CHECK(ol_pending_has(f.pending, &f.name, 3));
    ol_table_row row;
    size_t cursor = 0;
    OL_CHECK(ol_pending_next_value(f.pending, 7, &cursor, &row) && row.value.offset == 51 && row.partition == 3);
    OL_CHECK(row.value.metadata.size == 1 && row.group.size == 1 && row.topic.size == 6);
    OL_CHECK(!ol_pending_next_value(f.pending, 7, &cursor, &row));
    OL_CHECK_INT(ol_pending_commit(f.pending, 7), 1);
    OL_CHECK_INT(committed(&f, 3), 51);
    end(&f);
}

OL_TEST(abort_leaves_what_was_there) {
    fixture f = begin();
    put(&f, 3, 10, 100);
    add(&f, 7, &f.name, 3, 50, 103);
    add(&f, 7, &f.name, 4, 50, 104);
    OL_CHECK_INT(ol_pending_abort(f.pending, 7), 2);
    OL_CHECK_INT(ol_pending_abort(f.pending, 7), 0);
    OL_CHECK_INT(committed(&f, 3), 10);
    OL_CHECK_INT(committed(&f, 4), -1);
    OL_CHECK_INT(ol_table_count(f.table), 1);
    end(&f);
}

OL_TEST(two_producers_commit_in_either_order) {
    for (int first = 0; first < 2; first++) {
        fixture f = begin();
        add(&f, 1, &f.name, 3, 10, 100);
        add(&f, 2, &f.name, 3, 20, 101);
        ol_pending_producer producer;
        OL_CHECK(ol_pending_producer_at(f.pending, 0, &producer) && producer.producer_id == 1 && producer.values == 1);
        OL_CHECK(ol_pending_producer_at(f.pending, 1, &producer) && producer.first_log_offset == 101);
        OL_CHECK(!ol_pending_producer_at(f.pending, 2, &producer));
        ol_pending_commit(f.pending, first == 0 ? 1 : 2);
        OL_CHECK(ol_pending_has(f.pending, &f.name, 3));
        ol_pending_commit(f.pending, first == 0 ? 2 : 1);
        OL_CHECK_INT(committed(&f, 3), 20);
        OL_CHECK(!ol_pending_has(f.pending, &f.name, 3) && !has_group(&f, "g"));
        end(&f);
    }
}

/* Kafka's rules for some positions, written out (docs/format/loading.md §6.4). */
enum { POSITIONS = 12, PRODUCERS = 5 };
typedef struct rule_value {
    bool present;
    int64_t offset, log_offset;
} rule_value;

static int64_t live_values(const rule_value *values) {
    int64_t count = 0;
    for (int i = 0; i < POSITIONS; i++) count += values[i].present;
    return count;
}

/* The walk of the group returns every live value once, newest first. */
static void check_unstable(const fixture *f, rule_value pending[PRODUCERS][POSITIONS]) {
    int64_t expected = 0, found = 0;
    for (int k = 0; k < PRODUCERS; k++) expected += live_values(pending[k]);
    uint64_t cursor = 0, hash = ol_table_group_hash(f->table, f->name.group);
    ol_table_row row;
    int64_t before = INT64_MAX;
    while (ol_pending_next_unstable(f->pending, f->name.group, hash, &cursor, &row)) {
        bool is_known = false;
        for (int k = 0; k < PRODUCERS; k++) {
            const rule_value *value = &pending[k][row.partition];
            is_known |= value->present && value->log_offset == row.value.log_offset;
        }
        OL_CHECK(is_known && row.value.log_offset < before);
        before = row.value.log_offset;
        found++;
    }
    OL_CHECK_INT(found, expected);
}

OL_TEST(random_transactions_agree_with_the_rules) {
    fixture f = begin();
    static rule_value plain[POSITIONS], pending[PRODUCERS][POSITIONS];
    memset(plain, 0, sizeof plain);
    memset(pending, 0, sizeof pending);
    for (int64_t log_offset = 1; log_offset < 20000; log_offset++) {
        int p = (int)ol_test_below(POSITIONS), who = (int)ol_test_below(PRODUCERS);
        switch (ol_test_below(8)) {
            case 0: case 1: case 2:
                add(&f, who, &f.name, p, log_offset * 10, log_offset);
                pending[who][p] = (rule_value){true, log_offset * 10, log_offset};
                break;
            case 3: case 4:
                put(&f, p, log_offset * 10, log_offset);
                plain[p] = (rule_value){true, log_offset * 10, log_offset};
                break;
            case 5:
                ol_table_remove(f.table, &f.name, p, log_offset);
                plain[p].present = false;
                for (int i = 0; i < PRODUCERS; i++) pending[i][p].present = false;
                break;
            case 6:
                for (int i = 0; i < POSITIONS; i++) {
                    rule_value *value = &pending[who][i];
                    if (value->present && (!plain[i].present || value->log_offset > plain[i].log_offset)) plain[i] = *value;
                    value->present = false;
                }
                ol_pending_commit(f.pending, who);
                break;
            default:
                if (ol_test_below(3) != 0) break;
                OL_CHECK_INT(ol_pending_abort(f.pending, who), live_values(pending[who]));
                memset(pending[who], 0, sizeof pending[who]);
        }
        bool any = false;
        for (int i = 0; i < POSITIONS; i++) {
            OL_CHECK_INT(committed(&f, i), plain[i].present ? plain[i].offset : -1);
            bool unstable = false;
            for (int k = 0; k < PRODUCERS; k++) unstable |= pending[k][i].present;
            OL_CHECK_INT(ol_pending_has(f.pending, &f.name, i), unstable);
            any |= unstable;
        }
        OL_CHECK_INT(has_group(&f, "g"), any);
        check_unstable(&f, pending);
        if (log_offset % 200 == 0) ol_table_verify(f.table);
    }
    end(&f);
}

OL_TEST(many_producers_and_values) {
    fixture f = begin();
    for (int i = 0; i < 3000; i++) add(&f, (i * 7919) % 1000, &f.name, i, i, i);
    ol_pending_producer producer;
    int64_t before = -1;
    size_t index = 0;
    for (; ol_pending_producer_at(f.pending, index, &producer); index++) {
        OL_CHECK(producer.first_log_offset > before && producer.values == 3);
        before = producer.first_log_offset;
    }
    OL_CHECK_INT(index, 1000);
    for (int i = 0; i < 1000; i += 2) OL_CHECK_INT(ol_pending_commit(f.pending, i), 3);
    OL_CHECK_INT(ol_table_count(f.table), 1500);
    OL_CHECK(ol_pending_memory_usage(f.pending) > 0);
    end(&f);
}

/* A walk by index would take hours here: a transaction may be as large as its log. */
OL_TEST(a_large_transaction_is_walked_once) {
    fixture f = begin();
    enum { VALUES = 200000, REPLACED = 1000 };
    for (int i = 0; i < VALUES; i++) add(&f, 7, &f.name, i, i, i);
    for (int i = 0; i < REPLACED; i++) add(&f, 7, &f.name, i, -i, VALUES + i);
    ol_table_row row;
    size_t cursor = 0;
    for (int i = REPLACED; i < VALUES; i++) {
        OL_CHECK(ol_pending_next_value(f.pending, 7, &cursor, &row) && row.partition == i && row.value.offset == i);
    }
    for (int i = 0; i < REPLACED; i++) {
        OL_CHECK(ol_pending_next_value(f.pending, 7, &cursor, &row) && row.partition == i && row.value.offset == -i);
    }
    OL_CHECK(!ol_pending_next_value(f.pending, 7, &cursor, &row) && !ol_pending_next_value(f.pending, 7, &cursor, &row));
    cursor = 0;
    OL_CHECK(!ol_pending_next_value(f.pending, 8, &cursor, &row));
    end(&f);
}

static int64_t count_of_group(const fixture *f, const char *group, int64_t offset_max) {
    ol_table_row row;
    uint64_t cursor = 0, hash = ol_table_group_hash(f->table, text(group));
    int64_t count = 0, before = INT64_MAX;
    for (; ol_pending_next_of_group(f->pending, text(group), hash, &cursor, &row); count++) {
        OL_CHECK(row.group.size == strlen(group) && memcmp(row.group.data, group, row.group.size) == 0);
        OL_CHECK(row.value.log_offset < before && row.value.offset <= offset_max);
        before = row.value.log_offset;
    }
    OL_CHECK(!ol_pending_next_of_group(f->pending, text(group), hash, &cursor, &row));
    return count;
}

OL_TEST(the_values_of_a_group_are_those_that_a_commit_would_install) {
    fixture f = begin();
    ol_pair_name other = name_pair(f.table, "other", "orders");
    OL_CHECK_INT(count_of_group(&f, "g", 0), 0);
    for (int i = 0; i < 300; i++) add(&f, i % 3, i % 10 == 0 ? &other : &f.name, i, i, 100 + i);
    OL_CHECK_INT(count_of_group(&f, "g", 299), 270);
    OL_CHECK_INT(count_of_group(&f, "other", 299), 30);
    OL_CHECK_INT(count_of_group(&f, "none", 0), 0);
    add(&f, 1, &f.name, 1, 7, 500);             /* replaces */
    add(&f, 2, &f.name, 1, 8, 501);             /* another producer's, of the same position */
    put(&f, 2, 9, 502);                         /* newer than what is pending */
    ol_table_remove(f.table, &f.name, 3, 503);  /* erases */
    OL_CHECK_INT(count_of_group(&f, "g", 299), 269);
    ol_pending_abort(f.pending, 2);
    OL_CHECK_INT(count_of_group(&f, "g", 299), 179);
    ol_pending_abort(f.pending, 1);
    ol_pending_commit(f.pending, 0);
    OL_CHECK_INT(count_of_group(&f, "g", 0) + count_of_group(&f, "other", 0), 0);
    end(&f);
}

OL_TEST_MAIN()
