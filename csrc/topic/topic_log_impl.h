/* topic/topic_log_impl: the private struct of a topic's log; nothing outside topic/ includes it. */
#ifndef OL_TOPIC_TOPIC_LOG_IMPL_H
#define OL_TOPIC_TOPIC_LOG_IMPL_H

#include <pthread.h>

#include "topic/recent_batches.h"
#include "topic/topic_log.h"

struct ol_topic_log {
    ol_log *log;
    pthread_mutex_t writer;
    /* The mutex `writer` protects the fields below. */
    ol_recent_batches recent;
    int32_t leader_epoch;
};

#endif
