/* front/known_topics.c: one entry per topic, in two tables. */
#include "front/known_topics.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

static ol_known_topic *of_id_link(ol_chained_entry *link) {
    return (ol_known_topic *)((uint8_t *)link - offsetof(ol_known_topic, id_link));
}

static uint64_t hash_of(const ol_known_topics *topics, const void *bytes, size_t size) {
    return ol_hash64(bytes, size, topics->seed);
}

ol_known_topic *ol_known_topics_of_name(const ol_known_topics *topics, ol_slice name) {
    uint64_t hash = hash_of(topics, name.data, name.size);
    ol_chained_entry *each = ol_chained_map_first(&topics->by_name, hash);
    for (; each != NULL; each = each->next) {
        ol_known_topic *found = (ol_known_topic *)each;
        if (each->hash != hash) continue;
        if (ol_slice_equal(ol_slice_of(found->name, found->name_size), name)) return found;
    }
    return NULL;
}

ol_known_topic *ol_known_topics_of_id(const ol_known_topics *topics, const uint8_t *id) {
    uint64_t hash = hash_of(topics, id, OL_TOPIC_ID_SIZE);
    ol_chained_entry *each = ol_chained_map_first(&topics->by_id, hash);
    for (; each != NULL; each = each->next) {
        ol_known_topic *found = of_id_link(each);
        if (each->hash == hash && memcmp(found->id, id, OL_TOPIC_ID_SIZE) == 0) return found;
    }
    return NULL;
}

static void remove_entry(ol_known_topics *topics, ol_known_topic *topic) {
    ol_chained_map_remove(&topics->by_name, &topic->link);
    ol_chained_map_remove(&topics->by_id, &topic->id_link);
    free(topic);
}

void ol_known_topics_remove(ol_known_topics *topics, ol_slice name) {
    ol_known_topic *topic = ol_known_topics_of_name(topics, name);
    if (topic != NULL) remove_entry(topics, topic);
}

int ol_known_topics_put(ol_known_topics *topics, ol_slice name, const uint8_t *id,
                        int32_t partitions, ol_error *error) {
    int status = ol_chained_map_reserve(&topics->by_name, error);
    if (status == OL_OK) status = ol_chained_map_reserve(&topics->by_id, error);
    if (status != OL_OK) return status;
    ol_known_topic *topic = malloc(sizeof *topic + name.size);
    if (topic == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a topic");
    ol_known_topics_remove(topics, name);
    *topic = (ol_known_topic){.link.hash = hash_of(topics, name.data, name.size),
                              .id_link.hash = hash_of(topics, id, OL_TOPIC_ID_SIZE),
                              .partitions = partitions,
                              .name_size = name.size};
    memcpy(topic->id, id, OL_TOPIC_ID_SIZE);
    if (name.size > 0) memcpy(topic->name, name.data, name.size);
    ol_chained_map_add(&topics->by_name, &topic->link);
    ol_chained_map_add(&topics->by_id, &topic->id_link);
    return OL_OK;
}

void ol_known_topics_free(ol_known_topics *topics) {
    for (size_t i = 0; i < topics->by_name.bucket_count; i++) {
        while (topics->by_name.buckets[i] != NULL) {
            remove_entry(topics, (ol_known_topic *)topics->by_name.buckets[i]);
        }
    }
    ol_chained_map_free(&topics->by_name);
    ol_chained_map_free(&topics->by_id);
}
