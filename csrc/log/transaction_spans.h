/* log/transaction_spans: the transactions that were open at an offset of the log: where the oldest began, and where the last one ended.
 *
 * A transaction counts from its end on, but its records stand before it.  So a record below an offset may decide about states that lie
 * behind that offset only; who says that the states from an offset on do not depend on what is gone below has to look at these spans.
 * A cleaner that drops what is superseded below an offset spoils the states up to where the last transaction ends that was open there, and
 * one that shall spoil nothing from an offset on has to stop where the oldest of them began.
 *
 * Any thread, at any time; no lock is held.
 */
#ifndef OL_LOG_TRANSACTION_SPANS_H
#define OL_LOG_TRANSACTION_SPANS_H

#include "log/log.h"

/* *first is where the oldest transaction began that was open at `offset`; `offset` when none was. */
int ol_log_open_since(ol_log *log, int64_t offset, int64_t *first, ol_error *error) OL_NODISCARD;

/* *end is behind the last marker below `until` of the transactions that were open at `offset`; `offset` when none was. */
int ol_log_ended_by(ol_log *log, int64_t offset, int64_t until, int64_t *end, ol_error *error) OL_NODISCARD;

#endif
