/* epoch_of: the leader epoch that a call about a replicated partition has to carry now. */
#ifndef EPOCH_OF_H
#define EPOCH_OF_H

#include "partition/partition.h"

OL_UNUSED static int32_t epoch_of(ol_partition *partition) {
    ol_leadership leadership;
    ol_partition_leadership(partition, &leadership);
    return leadership.epoch;
}

#endif
