"""Answers frequent requests of consumers directly where they are read, without calling a handler.

csrc/front creates the answers.  This module writes the commits, and keeps each answer until its commits are safe.  All
connections share one flush for the commits of one turn of the event loop.
"""

cimport cython
import os
from collections import deque

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from offsetlog._native.buffers cimport NAME_GROUP, NAME_METADATA, NAME_TOPIC, take_name, text_of
from offsetlog._native.csrc cimport (
    OL_API_HEARTBEAT,
    OL_API_OFFSET_COMMIT,
    OL_API_OFFSET_FETCH,
    OL_OK,
    OL_WOULD_BLOCK,
    ol_admission_key,
    ol_admissions_add,
    ol_admissions_revoke,
    ol_answers_free,
    ol_commit_counts_add,
    ol_commit_counts_read,
    ol_commit_result,
    ol_error,
    ol_front_begin,
    ol_front_begin_commit,
    ol_front_commit,
    ol_front_end_commit,
    ol_front_fetch,
    ol_front_free,
    ol_front_heartbeat,
    ol_front_init,
    ol_front_set_led,
    ol_known_topics_put,
    ol_known_topics_remove,
    ol_load_i32,
    ol_partition_try_commit,
    ol_request_header,
    ol_slice,
    ol_slice_null,
    ol_slice_of,
)
from offsetlog._native.manager_core cimport ANSWER_PROCESS, ManagerCore
from offsetlog._native.status cimport check
from offsetlog._native.store_core cimport TRY_ITEMS_MAX

from offsetlog._native.messages import decode_request
from offsetlog.errors import LimitError, OffsetLogError

#: How many members, and groups without members, the front can serve without a call of their coordinator.  Others are served
#: too, but more slowly.
ADMISSIONS_MAX = 1 << 20
# Versions of OffsetCommit that give a retention time.
cdef enum:
    RETENTION_FROM = 2
    RETENTION_UNTIL = 4
# How much memory for answers is kept after a large answer was sent.
cdef size_t ANSWERS_KEPT = 1 << 20


cdef double seconds_now() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <double>now.tv_sec + <double>now.tv_nsec * 1e-9


@cython.final
cdef class Place:
    """The place of one or more requests in the order of answers.

    Their answer is sent after those of all earlier places.
    """

    def __cinit__(self):
        self.requests = 1

    cdef int settle(self, Front front, int32_t number, object failure) except -1:
        # The commits of one log partition are safe, or have failed.
        self.waits -= 1
        if failure is not None:
            if self.failures is None:
                self.failures = {}
            self.failures[number] = failure
        if self.waits > 0:
            return 0
        self.answer = self.prepared if self.failures is None else self.with_refusals(front)
        size = len(self.frames)
        self.prepared = self.frames = None
        stream, self.stream = self.stream, None
        front.report(&self.counts, &self.refused, self.read_at)
        stream.unparked(size)
        stream.settled(len(self.answer))
        return 0

    cdef bytes with_refusals(self, Front front):
        # Requests and answers are stored consecutively, each with its size.
        cdef const uint8_t *requests = self.frames
        cdef const uint8_t *answers = self.prepared
        cdef Py_ssize_t request = 0, answer = 0, request_end, answer_end
        found = []
        while request < len(self.frames):
            request_end = request + 4 + ol_load_i32(requests + request)
            answer_end = answer + 4 + ol_load_i32(answers + answer)
            frame = self.frames[request + 4 : request_end]
            failure = None
            if int.from_bytes(frame[:2], "big") == OL_API_OFFSET_COMMIT:
                asked = decode_request(frame)
                failure = self.failures.get(front.core.number_of(asked.message.group_id))
                if failure is not None:
                    self.refused.commits += 1
                    self.refused.positions += sum([len(each.partitions) for each in asked.message.topics])
            found.append(self.prepared[answer:answer_end] if failure is None else front.refused(asked, failure))
            request, answer = request_end, answer_end
        return b"".join(found)


cdef void note_commits(void *context, ol_slice group, uint64_t commits) noexcept with gil:
    (<list>context).append((text_of(group.data, group.size), commits))


cdef void note_heard(void *context, ol_slice member_id, double at) noexcept with gil:
    (<list>context).append((text_of(member_id.data, member_id.size), at))


@cython.final
cdef class Front:
    """Answers requests so that no handler is needed for them.  Not thread-safe: a front belongs to one event loop.

    Args:
        manager: the manager that keeps the positions; its durability decides when a commit is answered.
        loop: the event loop.
        now_ms: returns the time of day, in ms since 1970.
        metadata_units_max: the longest metadata of a position, in UTF-16 units.
        refused: a function that is called if an OffsetCommit request was written and then failed.  Its arguments are
            the Request and the OffsetLogError.  It returns the frame of the answer.

    Attributes:
        metrics: counts the requests that the front answers; None to count nothing.
        received_bytes, sent_bytes: the bytes that all connections received and sent.
    """

    def __cinit__(self, ManagerCore manager not None, loop, now_ms, *, size_t metadata_units_max, refused):
        cdef ol_error error
        self.manager = manager
        self.core = manager.core
        self.loop = loop
        self.now_ms = now_ms
        self.refused = refused
        self.waits_for_flush = manager.default != ANSWER_PROCESS
        self.last_number = -1
        self.others = {}
        self.dirty = {}
        self.waiting = {}
        seed = int.from_bytes(os.urandom(8), "little")
        check(ol_front_init(&self.front, self.core.count, metadata_units_max, seed, ADMISSIONS_MAX, &error), &error)

    def __dealloc__(self):
        ol_front_free(&self.front)
        ol_answers_free(&self.answers)

    # --------------------------------------------------------------------------- called by the coordinator

    def admit(self, group, int32_t generation, member_id, group_instance_id):
        """Admits a member: until `revoke`, the front answers the requests that have exactly these values."""
        cdef ol_admission_key key
        cdef ol_error error
        key.generation = generation
        key.group_instance_id = ol_slice_null()
        take_name(group, NAME_GROUP, &key.group)
        take_name(member_id, NAME_METADATA, &key.member_id)
        if group_instance_id is not None:
            take_name(group_instance_id, NAME_METADATA, &key.group_instance_id)
        try:
            check(ol_admissions_add(&self.front.admissions, &key, &error), &error)
        except LimitError:
            pass  # the coordinator goes on answering its requests

    def revoke(self, group):
        """Ends the admission of a group's members.

        Returns (member id, time of its last request in s) for each member that sent requests since `admit`.
        """
        cdef ol_slice name
        cdef list heard = []
        take_name(group, NAME_GROUP, &name)
        ol_admissions_revoke(&self.front.admissions, name, note_heard, <void *>heard)
        return heard

    def set_led(self, int32_t number, bint is_led):
        """Sets whether this process leads a log partition and has loaded the groups of that log partition.

        The front answers fetches only for a log partition that this process leads.  When the process stops leading it,
        the members of its groups are revoked too.
        """
        self.core.check_number(number)
        ol_front_set_led(&self.front, number, is_led)

    # ----------------------------------------------------------------------------------- commits by group

    @property
    def admissions(self):
        """The number of admitted members, plus the number of admitted groups that have no members."""
        return self.front.admissions.entries.count

    def count_commit(self, group):
        """Counts, for its group, a commit that a handler has answered."""
        cdef ol_slice name
        take_name(group, NAME_GROUP, &name)
        ol_commit_counts_add(&self.front.admissions.counts, name)

    def commit_counts(self, size_t part):
        """Returns the number of the next part (0 after the last one), and a list of the (group, commits) in `part`.

        The counts are divided into parts of a few hundred groups, so that requests can be answered between two calls.
        The first part is 0.  A commit is counted when it is written.  Up to 65,536 groups are counted.  If two parts
        contain the same group, the later one has the newer count.
        """
        cdef list found = []
        following = ol_commit_counts_read(&self.front.admissions.counts, part, note_commits, <void *>found)
        return following, found

    # -------------------------------------------------------------------------------------------- metadata

    def put_topic(self, name, bytes topic_id not None, int32_t partitions):
        """Adds a topic; `topic_id` is its id, 16 bytes."""
        cdef ol_slice slice
        cdef ol_error error
        if len(topic_id) != 16:
            raise ValueError(f"a topic id must have 16 bytes, not {len(topic_id)}")
        take_name(name, NAME_TOPIC, &slice)
        check(ol_known_topics_put(&self.front.topics, slice, <const uint8_t *>topic_id, partitions, &error), &error)

    def remove_topic(self, name):
        """Removes a topic."""
        cdef ol_slice slice
        take_name(name, NAME_TOPIC, &slice)
        ol_known_topics_remove(&self.front.topics, slice)

    # ------------------------------------------------------------------------------------------ requests

    cdef bint answer(self, const uint8_t *frame, size_t size, double at) except -1:
        # Returns whether the request was answered: its answer is added to those of the run.
        cdef ol_request_header header
        cdef ol_slice body
        if self.is_off or not ol_front_begin(ol_slice_of(frame, size), &header, &body):
            return False
        if header.api_key == OL_API_OFFSET_COMMIT:
            return self.commit(&header, body, at)
        if header.api_key == OL_API_HEARTBEAT:
            if not ol_front_heartbeat(&self.front, &header, body, at, &self.answers):
                return False
            self.heartbeats += 1
            self.counts.heartbeats += 1
            return True
        if not ol_front_fetch(&self.front, &header, body, self.core.slots, &self.answers):
            return False
        self.fetches += 1
        self.counts.fetches += 1
        return True

    cdef bint commit(self, const ol_request_header *header, ol_slice body, double at) except -1:
        cdef ol_front_commit commit
        cdef ol_commit_result result
        cdef ol_error error
        cdef int status = OL_WOULD_BLOCK
        cdef int64_t now = 0
        if self.manager.quotas is not None or self.manager.short_of_replicas:
            return False
        if RETENTION_FROM <= header.api_version <= RETENTION_UNTIL:
            now = self.now_ms()
        if not ol_front_begin_commit(&self.front, header, body, now, &commit, &self.answers):
            return False
        if self.core.slots[commit.log_partition] == NULL:
            return False
        if commit.count <= TRY_ITEMS_MAX:
            status = ol_partition_try_commit(self.core.slots[commit.log_partition], commit.items, commit.count, &result, &error)
        if status == OL_WOULD_BLOCK:
            try:
                self.core.write(commit.log_partition, commit.items, commit.count, -1, -1, &result, &error)
            except OffsetLogError:
                return False  # nothing was written: the handler tries again, and reports the error
        elif status != OL_OK:
            return False
        ol_front_end_commit(&commit, at, &self.answers)
        self.commits += 1
        self.counts.commits += 1
        self.counts.positions += <int64_t>commit.count
        self.manager.report_written(commit.log_partition)
        if self.waits_for_flush:
            self.wait_for(commit.log_partition, result.end_offset, result.term)
        return True

    # --------------------------------------------------------------------------- answers that have to wait

    cdef int wait_for(self, int32_t number, int64_t end_offset, uint64_t term) except -1:
        if self.last_number >= 0 and self.last_number != number:
            self.others[self.last_number] = (self.last.end_offset, self.last.term)
        self.last_number = number
        self.last.end_offset = end_offset
        self.last.term = term
        return 0

    cdef Place take_run(self, object stream, const uint8_t *frames, size_t size, Py_ssize_t requests,
                        double read_at):
        # Makes a place for the answers of the run, which ends here.
        cdef Place place = Place.__new__(Place)
        cdef bytes answers = PyBytes_FromStringAndSize(<const char *>self.answers.bytes, <Py_ssize_t>self.answers.size)
        self.clear_answers()
        place.requests = requests
        place.counts = self.counts
        place.read_at = read_at
        self.counts = counted(0, 0, 0, 0)
        if self.last_number < 0:
            place.answer = answers
            self.report(&place.counts, &place.refused, read_at)
            return place
        place.prepared = answers
        place.frames = PyBytes_FromStringAndSize(<const char *>frames, <Py_ssize_t>size)
        place.stream = stream
        self.park(place)
        stream.parked(size)
        return place

    cdef int drop_run(self) except -1:
        # The run failed midway, and its answers must not be sent to another connection.
        self.answers.size = 0
        self.counts = counted(0, 0, 0, 0)
        self.last_number = -1
        self.others = {}
        return 0

    cdef bint waits(self) noexcept:
        # Returns whether commits of the run wait for a flush.
        return self.last_number >= 0

    cdef int count_run(self, double read_at) except -1:
        # Ends a run that waits for no flush and whose answers were sent.
        cdef counted none = counted(0, 0, 0, 0)
        cdef counted counts = self.counts
        self.counts = none
        self.clear_answers()
        return self.report(&counts, &none, read_at)

    cdef int clear_answers(self) noexcept:
        if self.answers.size > ANSWERS_KEPT:
            ol_answers_free(&self.answers)
        self.answers.size = 0
        return 0

    cdef int report(self, const counted *counts, const counted *refused, double read_at) except -1:
        cdef double seconds
        if self.metrics is None:
            return 0
        seconds = seconds_now() - read_at
        if counts.commits > 0:
            self.metrics.add(OL_API_OFFSET_COMMIT, seconds, <uint64_t>counts.commits)
            self.metrics.commits += counts.commits - refused.commits
            self.metrics.positions += counts.positions - refused.positions
        if counts.fetches > 0:
            self.metrics.add(OL_API_OFFSET_FETCH, seconds, <uint64_t>counts.fetches)
        if counts.heartbeats > 0:
            self.metrics.add(OL_API_HEARTBEAT, seconds, <uint64_t>counts.heartbeats)
        return 0

    cdef int park(self, Place place) except -1:
        cdef dict all_waits = self.others
        all_waits[self.last_number] = (self.last.end_offset, self.last.term)
        self.others = {}
        self.last_number = -1
        place.waits = <int>len(all_waits)
        for number, (end_offset, term) in all_waits.items():
            if number not in self.waiting:
                self.waiting[number] = deque()
            self.waiting[number].append((end_offset, place))
            self.dirty[number] = (end_offset, term)
        if not self.is_turn_ordered:
            self.is_turn_ordered = True
            self.loop.call_soon(self._turn)
        return 0

    def _turn(self):
        # Runs at the end of a turn of the loop, and waits once per log partition for the commits of all connections.
        cdef dict dirty = self.dirty
        self.dirty = {}
        self.is_turn_ordered = False
        for number, (end_offset, term) in dirty.items():
            try:
                pending = self.manager.park(number, end_offset, term, -1, None)
            except OffsetLogError as failure:
                self._settle(number, end_offset, failure)
                continue
            pending.add_done_callback(self._reported(number, end_offset))

    def _reported(self, number, end_offset):
        def report(pending):
            self.loop.call_soon_threadsafe(self._settled, number, end_offset, pending)

        return report

    def _settled(self, number, end_offset, pending):
        failure = None
        try:
            pending.result(0)
        except OffsetLogError as reason:
            failure = reason
        self._settle(number, end_offset, failure)

    def _settle(self, int32_t number, int64_t end_offset, failure):
        cdef Place place
        waiting = self.waiting[number]
        while waiting and waiting[0][0] <= end_offset:
            _, place = waiting.popleft()
            place.settle(self, number, failure)
