/* log/transaction_spans: where the oldest transaction open at an offset began, and where the last
 * one ended.
 *
 * A transaction takes effect at its end, but its records lie before it.  So a record below an
 * offset may matter only to states above that offset.  A caller that relies on states above an
 * offset not depending on records removed below it must check these spans.  A cleaner that drops
 * superseded records below an offset invalidates the states up to the end of the last transaction
 * that is open there.  If all states from an offset on must stay valid, it must stop where the
 * oldest of these transactions began.
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
