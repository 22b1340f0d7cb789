/* Retention of a partition: expired positions get tombstones, and nothing else does (docs/format/coordinator.md §5.13,
 * docs/format/traps.md traps 21 to 23).  retention/group decides, write writes, report reports. */
#include "retention/run.h"
#include "base/bytes.h"
#include "retention/group_view.h"
#include "partition_fixture.h"
#include "epoch_of.h"

enum { HOUR = 3600000, DAY = 24 * HOUR };

static ol_partition *open_fresh(void) {
    ol_partition_options options = fixture_options(fresh_directory());
    options.batch_bytes_max = 4096;
    return open_partition(&options, true);
}

static void commit_at(ol_partition *partition, const char *group, const char *topic, int32_t number, int64_t commit_ms, int64_t expire_ms) {
    ol_item item = position_item(group, topic, number, 7);
    ol_commit_result result;
    ol_error error;
    item.commit_timestamp = commit_ms;
    item.expire_timestamp = expire_ms;
    OL_CHECK_OK(try_one(partition, item, -1, &result, &error), &error);
}

static void commit_record(ol_partition *partition, const char *group, ol_slice key, ol_slice value) {
    ol_item item = {.kind = OL_ITEM_GROUP_RECORD, .group = text(group), .key = key, .value = value};
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(ol_partition_commit(partition, &item, 1, -1, -1, &result, &error), &error);
}

static ol_slice key_of(int16_t type, const char *group, const char *member, uint8_t *bytes) {
    uint8_t *p = bytes;
    ol_store_i16(p, type);
    const char *parts[] = {group, member};
    p += 2;
    for (int i = 0; i < 2 && parts[i] != NULL; i++) {
        size_t size = strlen(parts[i]);
        ol_store_i16(p, (int16_t)size);
        memcpy(p + 2, parts[i], size);
        p += 2 + size;
    }
    return ol_slice_of(bytes, (size_t)(p - bytes));
}

/* GroupMetadata v3 with so many members (docs/format/records.md §3.4). */
static void commit_classic(ol_partition *partition, const char *group, const char *protocol_type, int64_t state_ms, int members) {
    uint8_t key[64], value[256], *p = value;
    size_t size = strlen(protocol_type);
    ol_store_i16(p, 3);
    ol_store_i16(p + 2, (int16_t)size);
    memcpy(p + 4, protocol_type, size);
    p += 4 + size;
    memcpy(p, "\0\0\0\5\xff\xff\xff\xff", 8);
    ol_store_i64(p + 8, state_ms);
    ol_store_i32(p + 16, members);
    p += 20;
    for (int i = 0; i < members; i++) {
        static const uint8_t member[] = {0, 1, 'm', 0xff, 0xff, 0, 1, 'c', 0, 1, 'h', 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0};
        memcpy(p, member, sizeof member);
        p += sizeof member;
    }
    commit_record(partition, group, key_of(2, group, NULL, key), ol_slice_of(value, (size_t)(p - value)));
}

static ol_retention_rules *rules_of(int64_t default_ms) {
    ol_retention_rules *rules;
    ol_error error;
    OL_CHECK_OK(ol_retention_rules_create(NULL, 0, default_ms, &rules, &error), &error);
    return rules;
}

static ol_retention_report expire_as(ol_partition *partition, const ol_retention_options *options) {
    ol_retention_report report;
    ol_error error;
    OL_CHECK_OK(ol_retention_expire(partition, options, &report, &error), &error);
    return report;
}

static ol_retention_report expire(ol_partition *partition, int64_t default_ms, int64_t now_ms) {
    ol_retention_rules *rules = rules_of(default_ms);
    ol_retention_options options = {.rules = rules, .now_ms = now_ms};
    ol_expiring_rows rows = {0};
    ol_retention_report preview, report;
    ol_error error;
    int64_t end = ol_log_end(ol_partition_log(partition));
    OL_CHECK_OK(ol_retention_preview(partition, &options, 3, &rows, &preview, &error), &error);
    OL_CHECK_INT(ol_log_end(ol_partition_log(partition)), end);
    report = expire_as(partition, &options);
    /* The run does what the report announced. */
    OL_CHECK_INT(preview.positions_expired, report.positions_expired);
    OL_CHECK_INT(preview.positions_pending, report.positions_pending);
    OL_CHECK_INT(preview.groups_removed, report.groups_removed);
    OL_CHECK_INT(preview.groups_held, report.groups_held);
    OL_CHECK_INT(rows.count, report.positions_expired + report.groups_removed);
    for (size_t i = 0; i < rows.count; i++) {
        OL_CHECK(rows.rows[i].at_ms <= now_ms);
        OL_CHECK_INT(rows.rows[i].log_partition, 3);
    }
    ol_expiring_rows_free(&rows);
    ol_retention_rules_destroy(rules);
    return report;
}

static int64_t records_of(ol_partition *partition, const char *group) {
    const ol_state *state;
    ol_error error;
    ol_group_record record;
    size_t cursor = 0;
    int64_t count = 0;
    OL_CHECK_OK(ol_partition_lock_state(partition, &state, &error), &error);
    while (ol_group_records_next_of_group(state->group_records, text(group), &cursor, &record)) count++;
    ol_partition_unlock_state(partition);
    return count;
}

static void finish(ol_partition *partition) {
    ol_digest live = digest_of(partition);
    ol_partition_options options = fixture_options(fixture_directory);
    close_partition(partition);
    partition = open_partition(&options, true);
    check_same_digest(live, digest_of(partition));
    close_partition(partition);
    remove_fixture();
}

OL_TEST(a_simple_group_expires_position_by_position) {
    ol_partition *partition = open_fresh();
    int64_t now = fixture_now;
    commit_at(partition, "g", "t", 0, now - DAY, -1);
    commit_at(partition, "g", "t", 1, now - DAY + 1, -1);
    commit_at(partition, "g", "u", 0, now, now);
    commit_at(partition, "g", "u", 1, now - 9 * (int64_t)DAY, now + 1);
    ol_retention_report report = expire(partition, DAY, now);
    OL_CHECK_INT(report.positions_expired, 2);
    OL_CHECK_INT(report.groups, 1);
    OL_CHECK_INT(report.groups_removed, 0);
    OL_CHECK_INT(report.batches, 1);
    OL_CHECK_INT(report.end_offset, ol_log_end(ol_partition_log(partition)));
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), -1);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 1), 7);
    OL_CHECK_INT(fetch_one(partition, "g", "u", 0), -1);
    OL_CHECK_INT(fetch_one(partition, "g", "u", 1), 7);
    OL_CHECK_INT(expire(partition, DAY, now).positions_expired, 0);
    report = expire(partition, DAY, now + 1);
    OL_CHECK_INT(report.positions_expired, 2);
    OL_CHECK_INT(report.groups_removed, 1);
    OL_CHECK_INT(expire(partition, DAY, now + 1).groups, 0);
    finish(partition);
}

OL_TEST(never_means_nothing_is_written) {
    ol_partition *partition = open_fresh();
    commit_at(partition, "g", "t", 0, 1, 2);
    commit_classic(partition, "empty", "consumer", 1, 0);
    int64_t end = ol_log_end(ol_partition_log(partition));
    ol_retention_report report = expire(partition, OL_RETENTION_NEVER, fixture_now);
    OL_CHECK_INT(report.groups, 2);
    OL_CHECK_INT(report.groups_never, 2);
    OL_CHECK_INT(report.end_offset, -1);
    OL_CHECK_INT(ol_log_end(ol_partition_log(partition)), end);
    finish(partition);
}

OL_TEST(trap_21_an_empty_classic_group_counts_from_when_it_became_empty) {
    ol_partition *partition = open_fresh();
    int64_t now = fixture_now;
    commit_at(partition, "g", "t", 0, now - 10 * (int64_t)DAY, -1);
    commit_classic(partition, "g", "consumer", now - 6 * (int64_t)DAY, 0);
    commit_at(partition, "simple", "t", 0, now - 10 * (int64_t)DAY, -1);
    commit_classic(partition, "simple", "", now - 6 * (int64_t)DAY, 0);
    commit_at(partition, "unknown", "t", 0, now - 10 * (int64_t)DAY, -1);
    commit_classic(partition, "unknown", "consumer", -1, 0);
    ol_retention_report report = expire(partition, 7 * (int64_t)DAY, now);
    OL_CHECK_INT(report.positions_expired, 2);
    OL_CHECK_INT(report.groups_removed, 2);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 7);
    OL_CHECK_INT(records_of(partition, "g"), 1);
    OL_CHECK_INT(records_of(partition, "simple") + records_of(partition, "unknown"), 0);
    report = expire(partition, 7 * (int64_t)DAY, now + DAY);
    OL_CHECK_INT(report.positions_expired, 1);
    OL_CHECK_INT(report.groups_removed, 1);
    OL_CHECK_INT(records_of(partition, "g"), 0);
    finish(partition);
}

OL_TEST(trap_22_where_no_coordinator_is_a_group_with_members_never_expires) {
    ol_partition *partition = open_fresh();
    uint8_t key[64];
    commit_at(partition, "classic", "t", 0, 1, 1);
    commit_classic(partition, "classic", "consumer", 1, 1);
    commit_at(partition, "consumer", "t", 0, 1, 1);
    commit_record(partition, "consumer", key_of(3, "consumer", NULL, key), text("value"));
    commit_record(partition, "consumer", key_of(5, "consumer", "m", key), text("value"));
    commit_at(partition, "streams", "t", 0, 1, 1);
    commit_record(partition, "streams", key_of(19, "streams", "m", key), text("value"));
    commit_at(partition, "odd", "t", 0, 1, 1);
    commit_record(partition, "odd", key_of(2, "odd", NULL, key), text("\0\7"));
    commit_at(partition, "share", "t", 0, 1, 1);
    commit_record(partition, "share", key_of(11, "share", NULL, key), text("value"));
    commit_record(partition, "bare", key_of(10, "bare", "m", key), text("value"));
    ol_retention_report report = expire(partition, 0, fixture_now);
    OL_CHECK_INT(report.groups_held, 6);
    OL_CHECK_INT(report.positions_expired, 0);
    OL_CHECK_INT(report.end_offset, -1);
    finish(partition);
}

OL_TEST(modern_groups_without_members_go_with_all_their_records) {
    ol_partition *partition = open_fresh();
    uint8_t key[64];
    static const int16_t types[] = {17, 23, 20};
    commit_at(partition, "c", "t", 0, fixture_now - DAY, -1);
    commit_record(partition, "c", key_of(3, "c", NULL, key), text("value"));
    commit_record(partition, "c", key_of(6, "c", NULL, key), text("value"));
    commit_record(partition, "c", key_of(16, "c", "a.*", key), text("value"));
    for (int i = 0; i < 3; i++) commit_record(partition, "s", key_of(types[i], "s", NULL, key), text("value"));
    ol_retention_report report = expire(partition, DAY, fixture_now - 1);
    OL_CHECK_INT(report.groups_removed, 1);
    OL_CHECK_INT(records_of(partition, "s"), 0);
    OL_CHECK_INT(records_of(partition, "c"), 3);
    report = expire(partition, DAY, fixture_now);
    OL_CHECK_INT(report.positions_expired, 1);
    OL_CHECK_INT(report.groups_removed, 1);
    OL_CHECK_INT(report.batches, 1);
    OL_CHECK_INT(records_of(partition, "c"), 0);
    finish(partition);
}

OL_TEST(trap_23_an_empty_group_without_positions_goes_at_once) {
    ol_partition *partition = open_fresh();
    commit_classic(partition, "g", "consumer", fixture_now, 0);
    ol_retention_report report = expire(partition, 7 * (int64_t)DAY, fixture_now);
    OL_CHECK_INT(report.groups, 1);
    OL_CHECK_INT(report.groups_removed, 1);
    OL_CHECK_INT(records_of(partition, "g"), 0);
    finish(partition);
}

OL_TEST(what_is_pending_protects_its_position_and_the_group) {
    ol_partition *partition = open_fresh();
    commit_at(partition, "g", "t", 0, 1, -1);
    commit_at(partition, "g", "t", 1, 1, -1);
    commit_pending(partition, 5, "g", "t", 1, 9);
    commit_classic(partition, "only", "consumer", 1, 0);
    commit_pending(partition, 6, "only", "t", 0, 9);
    ol_retention_report report = expire(partition, DAY, fixture_now);
    OL_CHECK_INT(report.positions_expired, 1);
    OL_CHECK_INT(report.positions_pending, 1);
    OL_CHECK_INT(report.groups_removed, 0);
    OL_CHECK_INT(records_of(partition, "only"), 1);
    end_transaction(partition, 5, OL_CONTROL_COMMIT);
    end_transaction(partition, 6, OL_CONTROL_ABORT);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 1), 9);
    report = expire(partition, DAY, fixture_now);
    OL_CHECK_INT(report.positions_expired, 0);
    OL_CHECK_INT(report.groups_removed, 1);
    finish(partition);
}

/* The position that a transaction of the group is about is new, another one has expired: the group stays until the transaction ends. */
OL_TEST(a_transaction_elsewhere_in_the_group_keeps_its_records) {
    ol_partition *partition = open_fresh();
    commit_at(partition, "g", "t", 0, 1, -1);
    commit_classic(partition, "g", "consumer", 1, 0);
    commit_pending(partition, 5, "g", "other", 0, 9);
    ol_retention_report report = expire(partition, DAY, fixture_now);
    OL_CHECK_INT(report.positions_expired, 1);
    OL_CHECK_INT(report.groups_removed, 0);
    OL_CHECK_INT(records_of(partition, "g"), 1);
    finish(partition);
}

/* More tombstones than a batch of 4096 bytes takes: several, and the group's record in the last. */
OL_TEST(a_large_group_goes_in_several_batches) {
    ol_partition *partition = open_fresh();
    for (int i = 0; i < 1000; i++) commit_at(partition, "large", i % 2 == 0 ? "t" : "u", i, i < 900 ? 1 : fixture_now, -1);
    commit_classic(partition, "large", "", 1, 0);
    ol_retention_report report = expire(partition, DAY, fixture_now);
    OL_CHECK_INT(report.positions_expired, 900);
    OL_CHECK_INT(report.groups_removed, 0);
    OL_CHECK(report.batches > 5);
    report = expire(partition, DAY, fixture_now + DAY);
    OL_CHECK_INT(report.positions_expired, 100);
    OL_CHECK_INT(report.groups_removed, 1);
    OL_CHECK_INT(records_of(partition, "large"), 0);
    finish(partition);
}

/* Larger than what one hold of the table's lock is for. */
OL_TEST(a_big_group_is_looked_at_topic_by_topic) {
    enum { POSITIONS = 60000 };
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, true);
    static ol_position_row rows[POSITIONS];
    ol_row_run runs[] = {{text("big"), text("t"), 0}, {text("big"), text(""), POSITIONS / 2}};
    for (int i = 0; i < POSITIONS; i++) {
        rows[i] = (ol_position_row){{.offset = i, .commit_timestamp = i < POSITIONS / 2 ? fixture_now : 1, .expire_timestamp = -1, .leader_epoch = -1,
                                     .metadata = text("")}, i};
    }
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(ol_partition_commit_rows(partition, runs, 2, rows, POSITIONS, -1, -1, &result, &error), &error);
    commit_at(partition, "small", "t", 0, 1, -1);
    OL_CHECK_INT(expire(partition, 2 * fixture_now, fixture_now).positions_expired, 0);
    ol_retention_report report = expire(partition, DAY, fixture_now);
    OL_CHECK_INT(report.groups, 2);
    OL_CHECK_INT(report.positions_expired, POSITIONS / 2 + 1);
    OL_CHECK_INT(report.batches, 3);
    commit_classic(partition, "big", "", 1, 0);
    report = expire(partition, DAY, fixture_now + DAY);
    OL_CHECK_INT(report.positions_expired, POSITIONS / 2);
    OL_CHECK_INT(report.groups_removed, 1);
    OL_CHECK_INT(records_of(partition, "big"), 0);
    finish(partition);
}

OL_TEST(many_groups_each_by_its_own_rule) {
    enum { GROUPS = 5000 };
    ol_partition *partition = open_fresh();
    char name[16];
    for (int i = 0; i < GROUPS; i++) {
        snprintf(name, sizeof name, "%c-%d", 'a' + i % 3, i);
        commit_at(partition, name, "t", 0, fixture_now - 2 * HOUR, -1);
    }
    const ol_retention_rule given[] = {{text("a-"), true, HOUR}, {text("b-"), true, OL_RETENTION_NEVER}, {text("c-2"), false, 0}, {text("a-0"), false, DAY}};
    ol_retention_rules *rules;
    ol_error error;
    OL_CHECK_OK(ol_retention_rules_create(given, 4, DAY, &rules, &error), &error);
    ol_retention_options options = {.rules = rules, .now_ms = fixture_now};
    ol_expiring_rows rows = {0};
    ol_retention_report preview;
    OL_CHECK_OK(ol_retention_preview(partition, &options, 0, &rows, &preview, &error), &error);
    for (size_t i = 0; i < rows.count; i++) {
        ol_slice group = ol_string_dictionary_get(&rows.group_names, (size_t)rows.rows[i].group);
        OL_CHECK_INT(rows.rows[i].rule, ol_slice_equal(group, text("c-2")) ? 2 : 0);
        OL_CHECK_INT(rows.rows[i].base, rows.rows[i].topic < 0 ? OL_EXPIRY_GROUP : OL_EXPIRY_COMMIT);
        OL_CHECK_INT(rows.rows[i].at_ms, fixture_now - 2 * HOUR + (rows.rows[i].rule == 2 ? 0 : HOUR));
    }
    ol_expiring_rows_free(&rows);
    ol_retention_report report = expire_as(partition, &options);
    OL_CHECK_INT(report.groups, GROUPS);
    OL_CHECK_INT(report.groups_never, (GROUPS + 1) / 3);
    OL_CHECK_INT(report.positions_expired, (GROUPS + 2) / 3 - 1 + 1);
    OL_CHECK_INT(preview.positions_expired, report.positions_expired);
    OL_CHECK_INT(fetch_one(partition, "a-0", "t", 0), 7);
    OL_CHECK_INT(fetch_one(partition, "a-3", "t", 0), -1);
    OL_CHECK_INT(fetch_one(partition, "c-2", "t", 0), -1);
    OL_CHECK_INT(fetch_one(partition, "c-5", "t", 0), 7);
    ol_retention_rules_destroy(rules);
    finish(partition);
}

OL_TEST(it_stops_on_request) {
    ol_partition *partition = open_fresh();
    commit_at(partition, "g", "t", 0, 1, -1);
    ol_retention_rules *rules = rules_of(DAY);
    _Atomic bool stop = true;
    ol_retention_options options = {.rules = rules, .now_ms = fixture_now, .stop = &stop};
    ol_retention_report report = expire_as(partition, &options);
    OL_CHECK(report.stopped);
    OL_CHECK_INT(report.positions_expired, 0);
    ol_retention_rules_destroy(rules);
    finish(partition);
}

OL_TEST(a_partition_that_is_not_loaded_is_refused) {
    ol_partition_options options = fixture_options(fresh_directory());
    ol_partition *partition = open_partition(&options, false);
    ol_retention_rules *rules = rules_of(DAY);
    ol_retention_options expire_options = {.rules = rules, .now_ms = fixture_now};
    ol_retention_report report;
    ol_expiring_rows rows = {0};
    ol_error error;
    OL_CHECK_INT(ol_retention_expire(partition, &expire_options, &report, &error), OL_LOADING);
    OL_CHECK_INT(ol_retention_preview(partition, &expire_options, 0, &rows, &report, &error), OL_LOADING);
    ol_retention_rules_destroy(rules);
    close_partition(partition);
    remove_fixture();
}

/* Batches of ours begin at a sane time, whatever a log says; the caller, who judges the clock, gets that time. */
OL_TEST(the_newest_time_is_the_log_s_own) {
    ol_partition *partition = open_fresh();
    int64_t now = fixture_now;
    fixture_now = now + 30 * (int64_t)DAY;
    commit_one(partition, "g", "t", 0, 1);
    fixture_now = now;
    commit_one(partition, "g", "t", 1, 1);
    OL_CHECK_INT(ol_partition_newest_timestamp(partition), now + 30 * (int64_t)DAY);
    ol_partition_options options = fixture_options(fixture_directory);
    close_partition(partition);
    partition = open_partition(&options, true);
    OL_CHECK_INT(ol_partition_newest_timestamp(partition), now + 30 * (int64_t)DAY);
    OL_CHECK_INT(commit_one(partition, "g", "t", 2, 1).timestamp, now);
    close_partition(partition);
    remove_fixture();
}

/* ------------------------------------------------------------------------------------------------ a coordinator */

/* One that knows one group, and does something while it is asked: no lock of the engine's is held. */
typedef struct coordinator {
    ol_partition *partition;
    ol_group_view view;
    const char *known;
    const char *read_topic;
    const char *commit_topic;   /* committed when the state is asked for */
    int held;
    int asked;
} coordinator;

static bool asked_view(void *context, ol_slice group, ol_group_view *view) {
    coordinator *self = context;
    self->held++;
    self->asked++;
    if (self->commit_topic != NULL) commit_at(self->partition, "g", self->commit_topic, 0, fixture_now, -1);
    *view = self->view;
    return ol_slice_equal(group, text(self->known));
}

static bool asked_subscribed(void *context, ol_slice group OL_UNUSED, ol_slice topic) {
    return ol_slice_equal(topic, text(((coordinator *)context)->read_topic));
}

static void released(void *context, ol_slice group OL_UNUSED) { ((coordinator *)context)->held--; }

static ol_retention_report expire_asking(coordinator *self, int64_t now_ms) {
    ol_retention_rules *rules = rules_of(DAY);
    ol_group_state port = {asked_view, asked_subscribed, released, self};
    ol_retention_options options = {.rules = rules, .now_ms = now_ms, .groups = &port};
    ol_retention_report report = expire_as(self->partition, &options);
    OL_CHECK_INT(self->held, 0);
    OL_CHECK(self->asked > 0);
    ol_retention_rules_destroy(rules);
    return report;
}

OL_TEST(one_group_is_expired_alone) {
    coordinator self = {.partition = open_fresh(), .view = {.kind = OL_GROUP_CONSUMER}, .known = "g", .read_topic = "read"};
    commit_at(self.partition, "g", "read", 0, 1, -1);
    commit_at(self.partition, "g", "unread", 0, 1, -1);
    commit_at(self.partition, "h", "unread", 0, 1, -1);
    ol_retention_rules *rules = rules_of(DAY), *never = rules_of(OL_RETENTION_NEVER);
    ol_group_state port = {asked_view, asked_subscribed, released, &self};
    ol_retention_options options = {.rules = never, .now_ms = fixture_now, .groups = &port};
    ol_retention_report report;
    ol_error error;
    OL_CHECK_OK(ol_retention_expire_group(self.partition, &options, text("g"), &report, &error), &error);
    OL_CHECK_INT(report.groups_never, 1);
    OL_CHECK_INT(self.asked, 0);
    options.rules = rules;
    OL_CHECK_OK(ol_retention_expire_group(self.partition, &options, text("g"), &report, &error), &error);
    OL_CHECK_INT(report.positions_expired, 1);
    OL_CHECK_INT(report.groups_removed, 0);
    OL_CHECK_INT(self.held, 0);
    OL_CHECK_INT(fetch_one(self.partition, "g", "read", 0), 7);
    OL_CHECK_INT(fetch_one(self.partition, "h", "unread", 0), 7);
    options.groups = NULL;
    OL_CHECK_OK(ol_retention_expire_group(self.partition, &options, text("h"), &report, &error), &error);
    OL_CHECK_INT(report.positions_expired, 1);
    OL_CHECK_INT(report.groups_removed, 1);
    ol_retention_rules_destroy(rules);
    ol_retention_rules_destroy(never);
    finish(self.partition);
}

OL_TEST(a_coordinator_says_what_is_read) {
    coordinator self = {.partition = open_fresh(), .view = {.kind = OL_GROUP_CONSUMER}, .known = "g", .read_topic = "read"};
    commit_at(self.partition, "g", "read", 0, 1, -1);
    commit_at(self.partition, "g", "unread", 0, 1, -1);
    commit_at(self.partition, "g", "unread too", 0, 1, 1);
    ol_retention_report report = expire_asking(&self, fixture_now);
    OL_CHECK_INT(report.positions_expired, 2);
    OL_CHECK_INT(report.groups_removed, 0);
    OL_CHECK_INT(fetch_one(self.partition, "g", "read", 0), 7);
    self.view = (ol_group_view){.kind = OL_GROUP_CLASSIC, .is_consumer_protocol = true};
    self.read_topic = "";
    OL_CHECK_INT(expire_asking(&self, fixture_now).positions_expired, 0);
    self.view.is_stable = self.view.subscription_known = true;
    commit_classic(self.partition, "g", "consumer", 1, 1);
    report = expire_asking(&self, fixture_now);
    OL_CHECK_INT(report.positions_expired, 1);
    OL_CHECK_INT(report.groups_removed, 0);
    OL_CHECK_INT(records_of(self.partition, "g"), 1);
    self.view = (ol_group_view){.kind = OL_GROUP_CLASSIC, .is_empty = true, .state_timestamp = fixture_now};
    OL_CHECK_INT(expire_asking(&self, fixture_now).groups_removed, 1);
    finish(self.partition);
}

OL_TEST(what_is_committed_after_the_decision_survives) {
    coordinator self = {.partition = open_fresh(), .view = {.kind = OL_GROUP_SIMPLE, .is_empty = true, .state_timestamp = -1}, .known = "g",
                        .read_topic = "", .commit_topic = "t"};
    commit_at(self.partition, "g", "t", 0, 1, -1);
    commit_at(self.partition, "g", "u", 0, 1, -1);
    ol_retention_report report = expire_asking(&self, fixture_now);
    OL_CHECK_INT(report.positions_expired, 1);
    OL_CHECK_INT(report.groups_removed, 0);
    OL_CHECK_INT(fetch_one(self.partition, "g", "t", 0), 7);
    /* A topic that the coordinator was not asked about is taken for one that is read. */
    self.view = (ol_group_view){.kind = OL_GROUP_CONSUMER};
    self.commit_topic = "new";
    report = expire_asking(&self, fixture_now + 2 * (int64_t)DAY);
    OL_CHECK_INT(report.positions_expired, 1);
    OL_CHECK_INT(fetch_one(self.partition, "g", "new", 0), 7);
    finish(self.partition);
}

OL_TEST(a_share_group_of_a_coordinator_is_held) {
    coordinator self = {.partition = open_fresh(), .view = {.kind = OL_GROUP_SHARE, .is_empty = true}, .known = "g", .read_topic = ""};
    commit_at(self.partition, "g", "t", 0, 1, 1);
    OL_CHECK_INT(expire_asking(&self, fixture_now).groups_held, 1);
    finish(self.partition);
}

/* ------------------------------------------------------------------------------------------------ a replicated partition */

/* Records above W are not decided about, and their group stays as long as any of them are there. */
OL_TEST(what_is_in_flight_is_left_alone) {
    ol_partition_options options = fixture_options(fresh_directory());
    options.replicated = true;
    ol_error error;
    ol_partition *partition = open_partition(&options, true);
    OL_CHECK_OK(ol_partition_become_leader(partition, 1, false, &error), &error);
    OL_CHECK_OK(ol_partition_become_follower(partition, 2, &error), &error);
    OL_CHECK_OK(ol_partition_become_leader(partition, 3, false, &error), &error);
    commit_at(partition, "g", "t", 0, 1, -1);
    commit_at(partition, "g", "t", 1, 1, -1);
    commit_at(partition, "h", "t", 0, 1, -1);
    OL_CHECK_OK(ol_partition_advance(partition, epoch_of(partition), INT64_MAX, &error), &error);
    commit_at(partition, "g", "t", 0, fixture_now, -1);
    commit_classic(partition, "h", "consumer", 1, 1);
    ol_retention_rules *rules = rules_of(DAY);
    ol_retention_options expire_options = {.rules = rules, .now_ms = fixture_now};
    ol_retention_report report = expire_as(partition, &expire_options);
    OL_CHECK_INT(report.positions_expired, 1);
    OL_CHECK_INT(report.groups_removed, 0);
    /* The term of the report is the one in which its tombstones were written: one can wait for them. */
    OL_CHECK_OK(ol_partition_wait(partition, report.end_offset, report.term, OL_WAIT_FLUSHED, -1, &error), &error);
    OL_CHECK_INT(ol_partition_wait(partition, report.end_offset, report.term - 1, OL_WAIT_FLUSHED, -1, &error), OL_NOT_COORDINATOR);
    /* Its tombstone is in flight now: it is not written twice. */
    OL_CHECK_INT(expire_as(partition, &expire_options).positions_expired, 0);
    OL_CHECK_OK(ol_partition_advance(partition, epoch_of(partition), INT64_MAX, &error), &error);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 0), 7);
    OL_CHECK_INT(fetch_one(partition, "g", "t", 1), -1);
    OL_CHECK_INT(fetch_one(partition, "h", "t", 0), 7);
    OL_CHECK_INT(expire_as(partition, &expire_options).positions_expired, 0);
    OL_CHECK_OK(ol_partition_become_follower(partition, 4, &error), &error);
    ol_retention_report refused;
    OL_CHECK_INT(ol_retention_expire(partition, &expire_options, &refused, &error), OL_NOT_COORDINATOR);
    ol_retention_rules_destroy(rules);
    close_partition(partition);
    remove_fixture();
}

/* ------------------------------------------------------------------------------------------------ hostile records */

OL_TEST(group_records_of_any_bytes_are_read_or_hold_the_group) {
    ol_group_records *records;
    ol_error error;
    OL_CHECK_OK(ol_group_records_create(&records, &error), &error);
    srand(11);
    for (int round = 0; round < 20000; round++) {
        uint8_t value[40], key_bytes[16];
        size_t size = (size_t)rand() % sizeof value;
        for (size_t i = 0; i < size; i++) value[i] = (uint8_t)(rand() % 4 == 0 ? rand() : 0);
        if (size > 1) value[1] = (uint8_t)(rand() % 6);
        ol_group_record record = {.key = key_of(2, "g", NULL, key_bytes), .value = ol_slice_of(value, size), .log_offset = round, .timestamp = 1};
        record.group = ol_slice_of(record.key.data + 4, 1);
        OL_CHECK_OK(ol_group_records_put(records, &record, &error), &error);
        ol_group_view view;
        OL_CHECK(ol_group_view_read(records, text("g"), &view));
        OL_CHECK(view.is_empty || view.is_held);
    }
    ol_group_records_destroy(records);
}

/* The records that an upgrade left count only for its members. */
OL_TEST(the_newest_record_says_what_kind_a_group_is) {
    ol_partition *partition = open_fresh();
    uint8_t key[64];
    int64_t now = fixture_now;
    commit_at(partition, "g", "t", 0, now - 10 * (int64_t)DAY, -1);
    commit_classic(partition, "g", "consumer", now, 0);
    commit_record(partition, "g", key_of(3, "g", NULL, key), text("value"));
    ol_retention_report report = expire(partition, 7 * (int64_t)DAY, now);
    OL_CHECK_INT(report.positions_expired, 1);
    OL_CHECK_INT(records_of(partition, "g"), 0);
    finish(partition);
}

/* A walk of groups goes on although the table changes under it. */
OL_TEST(a_renewed_walk_ends_and_meets_what_was_there_all_along) {
    ol_table *table;
    ol_error error;
    OL_CHECK_OK(ol_table_create(&table, &error), &error);
    ol_position_value value = {.offset = 1, .expire_timestamp = -1, .metadata = text("")};
    char group[16];
    for (int i = 0; i < 300; i++) {
        snprintf(group, sizeof group, "g%d", i);
        ol_pair_name name = ol_table_name(table, text(group), ol_table_group_hash(table, text(group)), text("t"));
        OL_CHECK_OK(ol_table_put(table, &name, 0, &value, &error), &error);
    }
    ol_table_cursor cursor = {0};
    ol_slice found;
    uint64_t positions;
    int met = 0;
    for (int i = 0; ol_table_renew(table, &cursor), ol_table_next_group(table, &cursor, &found, &positions); i++) {
        met += found.data[0] == 'g';
        snprintf(group, sizeof group, "x%d", i % 50);
        ol_pair_name name = ol_table_name(table, text(group), ol_table_group_hash(table, text(group)), text("t"));
        if (i % 3 == 0) {
            ol_table_remove(table, &name, 0, i);
        } else if (i < 1000) {
            OL_CHECK_OK(ol_table_put(table, &name, 0, &value, &error), &error);
        }
    }
    OL_CHECK_INT(met, 300);
    ol_table_destroy(table);
}

OL_TEST_MAIN()
