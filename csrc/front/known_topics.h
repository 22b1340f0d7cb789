/* front/known_topics: the existing topics, by name and by id.
 *
 * Ownership: the set copies names and owns its entries.  To make an empty set, set all of its
 * memory to zero and then set `seed`.  The set takes no locks.  Only one thread may use it.
 */
#ifndef OL_FRONT_KNOWN_TOPICS_H
#define OL_FRONT_KNOWN_TOPICS_H

#include "base/chained_map.h"
#include "format/offset_record.h"

typedef struct ol_known_topics {
    ol_chained_map by_name;
    ol_chained_map by_id;
    uint64_t seed;
} ol_known_topics;

typedef struct ol_known_topic {
    ol_chained_entry link;          /* by name */
    ol_chained_entry id_link;
    int32_t partitions;
    uint8_t id[OL_TOPIC_ID_SIZE];
    uint64_t mark;                  /* the caller's */
    size_t name_size;
    uint8_t name[];
} ol_known_topic;

void ol_known_topics_free(ol_known_topics *topics);

/* Adds a topic, or replaces the topic that has the same name.  `id` has 16 bytes.  If it fails with
 * OL_NO_MEMORY, nothing has changed. */
int ol_known_topics_put(ol_known_topics *topics, ol_slice name, const uint8_t *id,
                        int32_t partitions, ol_error *error) OL_NODISCARD;

/* Removes a topic, if the set has it. */
void ol_known_topics_remove(ol_known_topics *topics, ol_slice name);

/* Return the topic with this name or id, or NULL if the set has none.  The topic is valid until the
 * set is next changed. */
ol_known_topic *ol_known_topics_of_name(const ol_known_topics *topics, ol_slice name);
ol_known_topic *ol_known_topics_of_id(const ol_known_topics *topics, const uint8_t *id);

#endif
