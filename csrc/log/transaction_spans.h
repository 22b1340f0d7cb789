/* log/transaction_spans: where the oldest transaction open at an offset began, and where the last
 * one ended.
 *
 * A transaction takes effect at its marker, which comes after its records.  So a record below an
 * offset can change the states above that offset without changing any state below it.  A caller
 * that removes records below an offset, but needs the states above it, must therefore call these
 * functions.  If a cleaner drops superseded records below an offset, the states become wrong up to
 * the end of the last transaction that is open at this offset.  If all states from the offset on
 * must stay valid, the cleaner must stop where the oldest of these transactions began.
 *
 * Any thread, at any time; no lock is held.
 */
#ifndef OL_LOG_TRANSACTION_SPANS_H
#define OL_LOG_TRANSACTION_SPANS_H

#include "log/log.h"

/* Sets *first to where the oldest transaction open at `offset` began, or to `offset` when none was
 * open. */
int ol_log_open_since(ol_log *log, int64_t offset, int64_t *first, ol_error *error) OL_NODISCARD;

/* Sets *end to the offset after the last marker below `until` of the transactions open at `offset`,
 * or to `offset` when none was open. */
int ol_log_ended_by(ol_log *log, int64_t offset, int64_t until, int64_t *end,
                    ol_error *error) OL_NODISCARD;

#endif
