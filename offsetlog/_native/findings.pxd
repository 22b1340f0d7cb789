from offsetlog._native.csrc cimport (
    ol_append,
    ol_copied_transaction,
    ol_error,
    ol_hash128,
    ol_log_recovery,
    ol_problem,
    ol_transaction_copy,
)

# Returns a sum of 128 bits as an int.
cdef object whole_of(ol_hash128 value)
# Returns the exception for an error, without raising it.
cdef object failure_of(const ol_error *error)
# Returns the exception for a problem, with the lost keys that a snapshot has, by (from, below).
cdef object problem_of(const ol_problem *problem, int number, dict keys)
cdef tuple groups_of(const ol_transaction_copy *copy, const ol_copied_transaction *row)
cdef dict recovery_of(const ol_log_recovery *found)
# Returns the ol_append for StoreConfig.append.
cdef ol_append append_of(str name) except *
