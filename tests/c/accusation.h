/* The accusations of an open.  A directory that only we wrote, on a disk that keeps all it has flushed, gives no
 * cause for any. */
#ifndef ACCUSATION_H
#define ACCUSATION_H

#include "log/log.h"

/* The first one, or NULL. */
OL_UNUSED static const char *accusation(const ol_log_recovery *recovery) {
    if (recovery->corrupt) return recovery->corruption.reason;
    if (recovery->loss_count > 0) return recovery->losses[0].error.reason;
    return recovery->others_worked ? "another program is said to have worked here" : NULL;
}

#endif
