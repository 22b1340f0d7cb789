/* front/front: every version of the three requests is answered or declined, never half; cut, changed, and with memory that runs
 * out.  Frames are copied into memory of exactly their size, so that a sanitizer sees any read past them. */
#include "fault_memory.h"
#include "front_fixture.h"

static ol_partition *opened;

static front_fixture begin(void) {
    ol_partition_options options = fixture_options(fresh_directory());
    opened = open_partition(&options, true);
    commit_one(opened, "group", "orders", 1, 5);
    return open_front(opened);
}

static void finish(front_fixture *fixture) {
    close_front(fixture);
    close_partition(opened);
    remove_fixture();
}

/* The admissions that the requests of a version can have. */
static asking sensible(int16_t key, int16_t version) {
    asking each = asking_of(key, version);
    if (key == OL_API_OFFSET_COMMIT && version == 0) each.generation = -1, each.member = "";
    return each;
}

static bool is_served(int16_t key, int16_t version) {
    /* Rare, and declined: each position has its time; a position that is missing is an error. */
    return !(key == OL_API_OFFSET_COMMIT && version == 1) && !(key == OL_API_OFFSET_FETCH && version == 0);
}

static bool answer_bytes(front_fixture *fixture, const uint8_t *bytes, size_t size) {
    uint8_t *exact = malloc(size > 0 ? size : 1);
    memcpy(exact, bytes, size);
    bool is_answered = answer_frame(fixture, ol_slice_of(exact, size));
    free(exact);
    return is_answered;
}

static bool ask(front_fixture *fixture, const asking *each) {
    uint8_t frame[FRAME_MAX];
    return answer_bytes(fixture, frame, make_frame(each, frame, sizeof frame));
}

/* Calls a function with a request of each API and version. */
static void for_each_version(front_fixture *fixture, void (*check)(front_fixture *fixture, asking each)) {
    for (size_t i = 0; i < sizeof fixture_keys / sizeof *fixture_keys; i++) {
        const ol_schema *schema = ol_api_of_key(fixture_keys[i])->request;
        for (int16_t version = schema->first_version; version <= schema->last_version; version++) {
            check(fixture, sensible(fixture_keys[i], version));
        }
    }
}

/* ------------------------------------------------------------------------------------------------------------- answered */

static void check_committed(const ol_field *fields, ol_value *values) {
    const ol_field *of_topic = fields_in(fields, "topics"), *of_partition = fields_in(of_topic, "partitions");
    ol_value *topics = field_of(fields, values, "topics");
    OL_CHECK_INT(topics->number, 1);
    ol_value *partitions = field_of(of_topic, topics->values, "partitions");
    OL_CHECK_INT(partitions->number, 1);
    OL_CHECK_INT(field_of(of_partition, partitions->values, "partitionIndex")->number, 1);
    OL_CHECK_INT(field_of(of_partition, partitions->values, "errorCode")->number, 0);
}

static void check_fetched(const ol_field *fields, ol_value *values, int16_t version) {
    if (version >= 8) {
        const ol_field *of_group = fields_in(fields, "groups");
        ol_value *groups = field_of(fields, values, "groups");
        OL_CHECK_INT(groups->number, 1);
        fields = of_group, values = groups->values;
    }
    OL_CHECK_INT(field_of(fields, values, "errorCode")->number, 0);
    const ol_field *of_topic = fields_in(fields, "topics"), *of_partition = fields_in(of_topic, "partitions");
    ol_value *topics = field_of(fields, values, "topics");
    OL_CHECK_INT(topics->number, 1);
    ol_value *partitions = field_of(of_topic, topics->values, "partitions");
    OL_CHECK_INT(partitions->number, 1);
    OL_CHECK_INT(field_of(of_partition, partitions->values, "committedOffset")->number, 5);
}

static void check_answered(front_fixture *fixture, asking each) {
    bool is_answered = ask(fixture, &each);
    OL_CHECK_INT(is_answered, is_served(each.key, each.version));
    if (!is_answered) return;
    ol_value_pool pool = {.limit = 1000};
    const ol_api *api = ol_api_of_key(each.key);
    ol_request_header header = {.api = api, .api_key = each.key, .api_version = each.version, .correlation_id = 7};
    ol_value *values = take_answer(fixture, &header, &pool);
    if (each.key == OL_API_OFFSET_COMMIT) check_committed(api->response->fields, values);
    if (each.key == OL_API_OFFSET_FETCH) check_fetched(api->response->fields, values, each.version);
    if (each.key == OL_API_HEARTBEAT) OL_CHECK_INT(field_of(api->response->fields, values, "errorCode")->number, 0);
    ol_value_pool_free(&pool);
}

OL_TEST(every_version_is_answered) {
    front_fixture fixture = begin();
    for_each_version(&fixture, check_answered);
    OL_CHECK_INT(fixture.commits, 10);
    OL_CHECK_INT(fetch_one(opened, "group", "orders", 1), 5);
    finish(&fixture);
}

/* ------------------------------------------------------------------------------------------------------------- declined */

static void check_cut(front_fixture *fixture, asking each) {
    uint8_t frame[FRAME_MAX];
    size_t size = make_frame(&each, frame, sizeof frame);
    for (size_t cut = 0; cut < size; cut++) OL_CHECK(!answer_bytes(fixture, frame, cut));
}

OL_TEST(a_frame_that_is_cut_is_declined) {
    front_fixture fixture = begin();
    int64_t end = ol_log_end(ol_partition_log(opened));
    for_each_version(&fixture, check_cut);
    OL_CHECK_INT(ol_log_end(ol_partition_log(opened)), end);
    finish(&fixture);
}

static void decline(front_fixture *fixture, asking each) {
    int64_t end = ol_log_end(ol_partition_log(opened));
    OL_CHECK(!ask(fixture, &each));
    OL_CHECK_INT(ol_log_end(ol_partition_log(opened)), end);
}

OL_TEST(what_is_not_plain_is_declined) {
    front_fixture fixture = begin();
    asking commit = asking_of(OL_API_OFFSET_COMMIT, 4), each;
    OL_CHECK(ask(&fixture, &commit));
    each = commit, each.group = "other", decline(&fixture, each);
    each = commit, each.member = "other", decline(&fixture, each);
    each = commit, each.generation++, decline(&fixture, each);
    each = commit, each.version = 7, each.instance = "", decline(&fixture, each);
    each = commit, each.topic = "other", decline(&fixture, each);
    each = commit, each.topics = 0, decline(&fixture, each);
    each = commit, each.topics = 2, decline(&fixture, each);
    each = commit, each.partitions = 0, decline(&fixture, each);
    each = commit, each.partition = -1, decline(&fixture, each);
    each = commit, each.partition = FIXTURE_PARTITIONS, decline(&fixture, each);
    each = commit, each.metadata = "12345678901", decline(&fixture, each);
    each = commit, each.metadata = "\xc3", decline(&fixture, each);
    each = commit, each.retention = -2, decline(&fixture, each);
    each = commit, each.retention = INT64_MAX - fixture_now + 1, decline(&fixture, each);
    each = commit, each.version = 10, each.topic_id = (const uint8_t *)"the id of nobody", decline(&fixture, each);
    each = commit, each.retention = INT64_MAX - fixture_now, each.metadata = "1234567890";
    OL_CHECK(ask(&fixture, &each));
    each = commit, each.metadata = NULL, each.partitions = 3;
    OL_CHECK(ask(&fixture, &each));
    each = commit, each.version = 8, each.offset = -2, each.epoch = -2;
    OL_CHECK(ask(&fixture, &each));     /* offsets and epochs are stored as they are sent */
    OL_CHECK_INT(fetch_one(opened, "group", "orders", 1), -2);

    asking beat = asking_of(OL_API_HEARTBEAT, 4);
    each = beat, each.member = "", each.generation = -1, decline(&fixture, each);
    each = beat, each.instance = "i", decline(&fixture, each);
    asking fetch = asking_of(OL_API_OFFSET_FETCH, 10);
    each = fetch, each.topic_id = (const uint8_t *)"the id of nobody", decline(&fixture, each);
    each = asking_of(OL_API_OFFSET_FETCH, 9), each.topic = "\xff", decline(&fixture, each);
    each = asking_of(OL_API_OFFSET_FETCH, 9), each.group = "\xff", decline(&fixture, each);
    OL_CHECK(ask(&fixture, &fetch) && ask(&fixture, &beat));

    ol_known_topics_remove(&fixture.front.topics, text("orders"));
    decline(&fixture, commit);
    decline(&fixture, fetch);
    ol_front_set_led(&fixture.front, 0, false);
    decline(&fixture, beat);
    decline(&fixture, asking_of(OL_API_OFFSET_FETCH, 9));
    finish(&fixture);
}

/* ------------------------------------------------------------------------------------------------------------ changed */

static void change(uint8_t *frame, size_t *size) {
    static const uint32_t edges[] = {0, 1, UINT32_MAX, INT32_MAX, 0x80000000u, 0x7fff7fffu};
    size_t at = (size_t)ol_test_below(*size);
    switch (ol_test_below(4)) {
        case 0: frame[at] = (uint8_t)ol_test_random(); break;
        case 1: frame[at] ^= (uint8_t)(1 << ol_test_below(8)); break;
        case 2:
            if (at + 4 <= *size) ol_store_u32(frame + at, edges[ol_test_below(sizeof edges / sizeof *edges)]);
            break;
        default: *size = at + 1; break;
    }
}

static void check_changed(front_fixture *fixture, asking each) {
    uint8_t sound[FRAME_MAX], frame[FRAME_MAX];
    size_t sound_size = make_frame(&each, sound, sizeof sound);
    int64_t rounds = ol_test_depth(2000, 100000);
    for (int64_t round = 0; round < rounds; round++) {
        size_t size = sound_size;
        memcpy(frame, sound, size);
        for (uint64_t i = ol_test_below(3); i < 3; i++) change(frame, &size);
        if (!answer_bytes(fixture, frame, size)) continue;
        ol_value_pool pool = {.limit = 1 << 20};
        ol_request_header header;
        ol_slice body;
        OL_CHECK(ol_front_begin(ol_slice_of(frame, size), &header, &body));
        (void)take_answer(fixture, &header, &pool);
        ol_value_pool_free(&pool);
    }
    check_answered(fixture, each);      /* admissions still hold */
}

OL_TEST(a_changed_frame_is_answered_whole_or_declined) {
    front_fixture fixture = begin();
    for_each_version(&fixture, check_changed);
    finish(&fixture);
}

/* ------------------------------------------------------------------------------------------------------ memory, sizes */

static void check_without_memory(front_fixture *fixture, asking each) {
    if (!is_served(each.key, each.version)) return;
    uint8_t frame[FRAME_MAX];
    each.partitions = 2000 / (each.key == OL_API_OFFSET_COMMIT ? 40 : 10);
    size_t size = make_frame(&each, frame, sizeof frame);
    for (int64_t at = 1;; at++) {
        /* Nothing is kept from the request before. */
        front_fixture fresh = open_front(fixture->partition);
        fault_memory_at(at);
        bool is_answered = answer_bytes(&fresh, frame, size);
        bool has_failed = fault_memory_calls() >= at;
        fault_memory_at(0);
        if (!is_answered) OL_CHECK(answer_bytes(&fresh, frame, size));
        close_front(&fresh);
        OL_CHECK(is_answered || has_failed);
        if (!has_failed) break;
    }
}

OL_TEST(a_request_that_finds_no_memory_is_declined) {
    front_fixture fixture = begin();
    for_each_version(&fixture, check_without_memory);
    finish(&fixture);
}

OL_TEST(a_front_that_finds_no_memory_is_not_made) {
    ol_front front;
    ol_error error;
    fault_memory_at(1);
    OL_CHECK_INT(ol_front_init(&front, 4, 10, 1, 10, &error), OL_NO_MEMORY);
    fault_memory_at(0);
    ol_front_free(&front);
}

/* A commit that is begun and fails leaves its answer after the others, uncounted. */
static void begin_commit_that_fails(front_fixture *fixture, const asking *each) {
    uint8_t frame[FRAME_MAX];
    ol_request_header header;
    ol_slice body;
    ol_front_commit commit;
    size_t size = make_frame(each, frame, sizeof frame), before = fixture->answers.size;
    OL_CHECK(ol_front_begin(ol_slice_of(frame, size), &header, &body));
    OL_CHECK(ol_front_begin_commit(&fixture->front, &header, body, fixture_now, &commit, &fixture->answers));
    OL_CHECK_INT(fixture->answers.size, before);
}

OL_TEST(answers_follow_each_other_in_memory_that_grows) {
    enum { ROUNDS = 4000 };
    front_fixture fixture = begin();
    asking fetch = asking_of(OL_API_OFFSET_FETCH, 9), commit = asking_of(OL_API_OFFSET_COMMIT, 9);
    fetch.partitions = 3, fetch.offset = commit.offset = 7;
    OL_CHECK(ask(&fixture, &commit));
    size_t commit_size = fixture.answers.size;
    OL_CHECK(ask(&fixture, &fetch));
    size_t round_size = fixture.answers.size;
    uint8_t *first = malloc(round_size);
    memcpy(first, fixture.answers.bytes, round_size);
    for (int round = 1; round < ROUNDS; round++) {
        OL_CHECK(ask(&fixture, &commit));
        if (round % 7 == 0) begin_commit_that_fails(&fixture, &commit);
        OL_CHECK(ask(&fixture, &fetch));
    }
    OL_CHECK(commit_size < round_size && fixture.answers.capacity > 1 << 17);
    OL_CHECK_INT(fixture.answers.size, ROUNDS * round_size);
    for (int round = 0; round < ROUNDS; round++) {
        OL_CHECK(memcmp(fixture.answers.bytes + (size_t)round * round_size, first, round_size) == 0);
    }
    free(first);
    finish(&fixture);
}

/* A request of 100 KB that asks for the longest metadata again and again: the answer would have 800 MB. */
OL_TEST(an_answer_that_is_too_large_is_declined) {
    enum { PARTITIONS = 25000, METADATA = 32767, CAPACITY = PARTITIONS * 5 + 100 };
    front_fixture fixture = begin();
    char *metadata = malloc(METADATA);
    uint8_t *frame = malloc(CAPACITY);
    memset(metadata, 'm', METADATA);
    ol_item item = position_item("group", "orders", 1, 5);
    item.metadata = ol_slice_of(metadata, METADATA);
    ol_commit_result result;
    ol_error error;
    OL_CHECK_OK(ol_partition_commit(opened, &item, 1, -1, -1, &result, &error), &error);
    asking each = asking_of(OL_API_OFFSET_FETCH, 9);
    each.partitions = PARTITIONS;
    size_t size = make_frame(&each, frame, CAPACITY);
    OL_CHECK(!answer_bytes(&fixture, frame, size));
    OL_CHECK(fixture.answers.capacity < 1 << 20);
    free(metadata);
    free(frame);
    finish(&fixture);
}

OL_TEST_MAIN()
