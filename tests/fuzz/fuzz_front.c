/* Any bytes as a request to the native front, with a group, a member, a topic and positions that it knows: declined, or answered
 * whole.  An OffsetCommit is not written anywhere. */
#include "base/bytes.h"
#include "front/front.h"
#include "fuzz.h"
#include "partition_fixture.h"
#include "wire/message.h"

/* OffsetCommit 8 and 10, OffsetFetch 7 and 10, Heartbeat 0 and 4: of the group "g", its member "m", the topic "t" */
static const char *const seeds[] = {
    "000800080000000700016300" "0267" "00000001" "026d" "00" "02" "0274" "02" "00000001" "0000000000000005" "00000002" "026d" "00" "00" "00",
    "0008000a0000000700016300" "0267" "00000001" "026d" "00" "02" "00112233445566778899aabbccddeeff" "02" "00000001" "0000000000000005"
    "00000002" "026d" "00" "00" "00",
    "000900070000000700016300" "0267" "02" "0274" "02" "00000001" "00" "00" "00",
    "0009000a0000000700016300" "02" "0267" "00" "ffffffff" "02" "00112233445566778899aabbccddeeff" "02" "00000001" "00" "00" "00" "00",
    "000c000000000007000163" "000167" "00000001" "00016d",
    "000c00040000000700016300" "0267" "00000001" "026d" "00" "00",
    NULL,
};

const char *const *ol_fuzz_seeds(void) { return seeds; }

static const uint8_t topic_id[OL_TOPIC_ID_SIZE] = {0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};

/* Shared by all inputs, which only read it. */
static ol_partition *positions;

static void close_positions(void) {
    close_partition(positions);
    remove_fixture();
}

static void open_positions(void) {
    ol_partition_options options = fixture_options(fresh_directory());
    positions = open_partition(&options, true);
    ol_item item = position_item("g", "t", 1, 5);
    item.metadata = text("some metadata");
    item.leader_epoch = 2;
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(try_one(positions, item, -1, &result, &error), &error);
    commit_one(positions, "g", "t", 2, INT64_MAX);
    OL_CHECK(atexit(close_positions) == 0);
}

static void open_front(ol_front *front) {
    ol_error error;
    ol_admission_key member = {.group = ol_slice_of("g", 1), .member_id = ol_slice_of("m", 1), .generation = 1};
    ol_admission_key nobody = {.group = ol_slice_of("g", 1), .member_id = ol_slice_of("", 0), .generation = -1};
    OL_ASSERT(ol_front_init(front, 1, 10, 1, 10, &error) == OL_OK);
    OL_ASSERT(ol_known_topics_put(&front->topics, ol_slice_of("t", 1), topic_id, 3, &error) == OL_OK);
    OL_ASSERT(ol_admissions_add(&front->admissions, &member, &error) == OL_OK);
    OL_ASSERT(ol_admissions_add(&front->admissions, &nobody, &error) == OL_OK);
    ol_front_set_led(front, 0, true);
}

static void check_items(const ol_front_commit *commit) {
    OL_ASSERT(commit->count > 0 && commit->admission != NULL && commit->log_partition == 0);
    for (size_t i = 0; i < commit->count; i++) {
        const ol_item *item = &commit->items[i];
        OL_ASSERT(item->partition >= 0 && item->partition < 3);
        OL_ASSERT(item->expire_timestamp >= -1 && item->metadata.data != NULL && item->metadata.size <= 40);
        OL_ASSERT(ol_slice_equal(item->group, ol_slice_of("g", 1)) && ol_slice_equal(item->topic, ol_slice_of("t", 1)));
    }
}

static bool answer(ol_front *front, const ol_request_header *header, ol_slice body, ol_answers *answers) {
    ol_front_commit commit;
    /* By a bit that means nothing else: with the positions, or a log partition that was never written. */
    ol_partition *partitions[] = {header->correlation_id & 1 ? positions : NULL};
    switch (header->api_key) {
        case OL_API_HEARTBEAT: return ol_front_heartbeat(front, header, body, 1.0, answers);
        case OL_API_OFFSET_FETCH: return ol_front_fetch(front, header, body, partitions, answers);
        default: break;
    }
    if (!ol_front_begin_commit(front, header, body, 1700000000000, &commit, answers)) return false;
    check_items(&commit);
    ol_front_end_commit(&commit, 1.0, answers);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ol_front front;
    ol_answers answers = {0};
    ol_request_header header;
    ol_slice body;
    if (positions == NULL) open_positions();
    open_front(&front);
    if (ol_front_begin(ol_slice_of(data, size), &header, &body)) {
        bool is_answered = answer(&front, &header, body, &answers);
        OL_ASSERT(is_answered ? ol_load_i32(answers.bytes) == (int32_t)answers.size - 4 : answers.size == 0);
    }
    ol_front_free(&front);
    ol_answers_free(&answers);
    return 0;
}
