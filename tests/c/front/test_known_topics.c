/* front/known_topics: beside a plain array, with names and ids that share a hash, and memory that runs out. */
#include "front/known_topics.h"

#include "colliding_names.h"
#include "fault_memory.h"

enum { NAMES = 40, SEED = 77, STEPS = 20000 };

typedef struct plain {
    bool is_there;
    int32_t partitions;
    uint64_t id;
} plain;

static plain model[NAMES];
static uint64_t last_id;

/* Half of the names share a hash, and so do half of the ids. */
static ol_slice name_at(size_t i, uint8_t bytes[COLLIDING_SIZE]) {
    if (i % 2 == 0) return colliding_name(SEED, i, bytes);
    return ol_slice_of(bytes, (size_t)snprintf((char *)bytes, COLLIDING_SIZE, "topic-%zu", i));
}

static const uint8_t *id_at(uint64_t number, uint8_t bytes[COLLIDING_SIZE]) {
    if (number % 2 == 0) return colliding_name(SEED, number, bytes).data;
    memset(bytes, (int)(number % 251), COLLIDING_SIZE);
    memcpy(bytes, &number, sizeof number);
    return bytes;
}

static void check_topic(const ol_known_topics *topics, size_t i) {
    uint8_t name[COLLIDING_SIZE], id[COLLIDING_SIZE];
    ol_slice wanted = name_at(i, name);
    ol_known_topic *found = ol_known_topics_of_name(topics, wanted);
    OL_CHECK_INT(found != NULL, model[i].is_there);
    if (found == NULL) return;
    OL_CHECK_INT(found->partitions, model[i].partitions);
    OL_CHECK(ol_slice_equal(ol_slice_of(found->name, found->name_size), wanted));
    OL_CHECK(memcmp(found->id, id_at(model[i].id, id), COLLIDING_SIZE) == 0);
    OL_CHECK(ol_known_topics_of_id(topics, found->id) == found);
}

static void check_all(const ol_known_topics *topics) {
    size_t count = 0;
    for (size_t i = 0; i < NAMES; i++) {
        check_topic(topics, i);
        count += model[i].is_there;
    }
    OL_CHECK_INT(topics->by_name.count, count);
    OL_CHECK_INT(topics->by_id.count, count);
}

static int put(ol_known_topics *topics, size_t i) {
    uint8_t name[COLLIDING_SIZE], id[COLLIDING_SIZE];
    plain made = {.is_there = true, .partitions = (int32_t)ol_test_below(9), .id = ++last_id};
    ol_error error;
    int status = ol_known_topics_put(topics, name_at(i, name), id_at(made.id, id), made.partitions, &error);
    if (status == OL_OK) model[i] = made;
    return status;
}

static void remove_one(ol_known_topics *topics, size_t i) {
    uint8_t name[COLLIDING_SIZE], id[COLLIDING_SIZE];
    uint64_t gone = model[i].id;
    bool was_there = model[i].is_there;
    ol_known_topics_remove(topics, name_at(i, name));
    model[i] = (plain){0};
    if (was_there) OL_CHECK(ol_known_topics_of_id(topics, id_at(gone, id)) == NULL);
}

OL_TEST(topics_are_made_replaced_and_removed) {
    ol_known_topics topics = {.seed = SEED};
    for (int step = 0; step < STEPS; step++) {
        size_t i = ol_test_below(NAMES);
        if (ol_test_below(3) == 0) {
            remove_one(&topics, i);
        } else {
            OL_CHECK_INT(put(&topics, i), OL_OK);
        }
        check_topic(&topics, i);
        if (step % 100 == 0) check_all(&topics);
    }
    check_all(&topics);
    ol_known_topics_free(&topics);
    memset(model, 0, sizeof model);
}

OL_TEST(a_topic_that_finds_no_memory_changes_nothing) {
    ol_known_topics topics = {.seed = SEED};
    int refused = 0;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < NAMES; i++) {
            for (int64_t at = 1;; at++) {
                fault_memory_at(at);
                int status = put(&topics, i);
                fault_memory_at(0);
                if (status == OL_OK) break;
                OL_CHECK_INT(status, OL_NO_MEMORY);
                refused++;
                check_all(&topics);
            }
            check_topic(&topics, i);
        }
    }
    OL_CHECK(refused > 3 * NAMES);
    ol_known_topics_free(&topics);
    memset(model, 0, sizeof model);
}

OL_TEST_MAIN()
