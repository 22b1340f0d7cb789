/* log/transaction_spans: finds where the oldest transaction that is open at an offset began, and
 * where the last of these transactions ended.
 *
 * A transaction takes effect at its marker, which comes after its records.  A record below an
 * offset can therefore change the state of the table above this offset although it changes no state
 * below it.  This concerns a cleaner that drops superseded records below an offset:
 * - The states from this offset on become wrong up to the end of the last transaction that is open
 *   at the offset (ol_log_ended_by).
 * - If all states from the offset on must stay right, the cleaner must already stop where the
 *   oldest of these transactions began (ol_log_open_since).
 *
 * The functions may be called from any thread at any time.  No lock is held during a call. */
#ifndef OL_LOG_TRANSACTION_SPANS_H
#define OL_LOG_TRANSACTION_SPANS_H

#include "log/log.h"

/* Sets *first to the first offset of the oldest transaction that is open at `offset`, or to
 * `offset` if no transaction is open there. */
int ol_log_open_since(ol_log *log, int64_t offset, int64_t *first, ol_error *error) OL_NODISCARD;

/* Considers the transactions that are open at `offset`.  Sets *end to the offset after the last of
 * their markers below `until`, or to `offset` if there is no such marker. */
int ol_log_ended_by(ol_log *log, int64_t offset, int64_t until, int64_t *end,
                    ol_error *error) OL_NODISCARD;

#endif
