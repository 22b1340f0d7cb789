/* log/transaction_spans: where the oldest transaction open at an offset began, and where the last
 * one ended.
 *
 * A transaction counts from its end on, but its records stand before it.  So a record below an
 * offset may matter only to states after that offset: a caller who claims that the states from an
 * offset on do not depend on removed records below it has to check these spans.  A cleaner that
 * drops superseded records below an offset spoils the states up to the end of the last transaction
 * open there.  One that must spoil nothing from an offset on has to stop where the oldest of them
 * began.
 *
 * Any thread, at any time; no lock is held.
 */
#ifndef OL_LOG_TRANSACTION_SPANS_H
#define OL_LOG_TRANSACTION_SPANS_H

#include "log/log.h"

/* *first is where the oldest transaction open at `offset` began; `offset` when none was. */
int ol_log_open_since(ol_log *log, int64_t offset, int64_t *first, ol_error *error) OL_NODISCARD;

/* *end is after the last marker below `until` of the transactions open at `offset`; `offset` when
 * none was. */
int ol_log_ended_by(ol_log *log, int64_t offset, int64_t until, int64_t *end,
                    ol_error *error) OL_NODISCARD;

#endif
