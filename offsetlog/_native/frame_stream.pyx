"""The frames of one connection: reads the requests, and sends their answers in the order of the requests."""

from collections import deque
from time import perf_counter

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t

from offsetlog._native.csrc cimport MSG_DONTWAIT, MSG_NOSIGNAL, ol_load_i32, send
from offsetlog._native.front cimport Front, Place, seconds_now

# The number of bytes of the size before a frame.
cdef enum:
    SIZE_BYTES = 4
#: Answers to the requests of one read are sent together, but at most this many bytes at a time.
SEND_BYTES = 64 << 10
cdef Py_ssize_t SEND_BYTES_C = SEND_BYTES

#: No further request is taken while this many bytes of answers wait for an earlier one.
ANSWERS_AHEAD_BYTES = 1 << 20
cdef Py_ssize_t ANSWERS_AHEAD_BYTES_C = ANSWERS_AHEAD_BYTES

#: Requests up to this size do not count against the memory that all connections share.
SMALL_REQUEST_BYTES = 64 << 10
cdef Py_ssize_t SMALL_REQUEST_BYTES_C = SMALL_REQUEST_BYTES

#: Once a turn has taken this long, in seconds, the frames after the one just handled wait for the next turn of the loop.
TURN_SECONDS = 0.005
cdef double TURN_SECONDS_C = TURN_SECONDS

#: The reasons why a connection is not read; several may apply at a time.
SLOW_READER, NO_MEMORY, IN_FLIGHT, WAITING, CLOSING, PARKED, NEXT_TURN = 1, 2, 4, 8, 16, 32, 64
cdef int SLOW_READER_C = SLOW_READER
cdef int IN_FLIGHT_C = IN_FLIGHT
cdef int WAITING_C = WAITING
cdef int CLOSING_C = CLOSING
cdef int NEXT_TURN_C = NEXT_TURN


cdef class FrameStream:
    """Splits the received bytes into frames, gets an answer for each frame, and sends the answers in order.

    A connection that has handled frames for `TURN_SECONDS` lets the other connections work first.  To measure this, the
    clock is read after each call of `handle`.  It is not read after the requests that the Front answers, because the
    Front needs at most a few milliseconds for the bytes of one read.

    A subclass is the asyncio.Protocol of one connection.  It sets `transport`, and has these methods:

    * ``handle(frame, place)``: handles a request that the front did not answer.  The frame begins after the request's
      size field.  The method, or code that runs later, calls `answered` with the place.
    * ``refuse_size(size)``: is called if a frame announces a size that is not allowed; the method makes the connection
      `CLOSING`.
    * ``expect(arrived)``: is called while a large frame (above `SMALL_REQUEST_BYTES`) is incomplete; `arrived` is the
      number of its bytes that have arrived.  The method may `hold` the connection.
    * ``taken()``: is called after a large frame was handled.
    * ``parked(size)``: is called when the front has written the commits of some frames, and keeps the frames until the
      commits are safe; `size` is their total size.  The method may `hold` the connection.
    * ``unparked(size)``: is called when these frames are no longer kept, even if the connection has ended by then.
    * ``unread(size)``: is called when the client does not read its answers; `size` is the total size of the answers
      that wait for it.
    * ``drained()``: is called when a connection that is `CLOSING` has sent all answers.

    Args:
        front: the Front, which answers some of the requests before `handle` gets them; None if there is no Front.
        loop: the event loop.
        time: a function that returns the time that groups use, in seconds.
        request_bytes_max: the largest frame, in bytes.
        requests_in_flight_max: the largest number of requests without an answer.  At this number, further requests are
            read only after some of these requests are answered.
    """

    cdef public object transport            # None: the connection has ended
    cdef public int fd                      # the transport's socket; -1: it has none
    cdef readonly object places             # deque of Place, in the order of the requests
    cdef readonly Py_ssize_t in_flight      # requests whose answers are not sent yet
    cdef readonly int held                  # the reasons why it is not read, 0: it is read
    cdef readonly double last_request       # when the last request became whole, by `seconds_now` (Linux's perf_counter)
    cdef Front front
    cdef object loop
    cdef object time
    cdef int64_t request_bytes_max
    cdef Py_ssize_t in_flight_max
    cdef readonly object received           # bytes not taken yet: bytes or a bytearray
    cdef bint is_receiving                  # within `data_received`
    cdef bint is_going_on
    cdef bint is_taking
    cdef bint is_paused
    cdef bint has_buffered                  # the transport has bytes that could not be sent at once
    cdef Py_ssize_t unsent                  # bytes of the answers in `places`
    cdef double turn_began                  # by perf_counter; 0: no handler was called yet

    def __init__(self, Front front, loop, time, *, int64_t request_bytes_max, Py_ssize_t requests_in_flight_max):
        self.front = front
        self.loop = loop
        self.time = time
        self.request_bytes_max = request_bytes_max
        self.in_flight_max = requests_in_flight_max
        self.fd = -1
        self.places = deque()
        self.received = b""
        self.last_request = seconds_now()

    # ------------------------------------------------------------------------------------------------ reading

    def data_received(self, bytes data not None):
        """See asyncio.Protocol."""
        if self.front is not None:
            self.front.received_bytes += len(data)
        if self.received:
            if type(self.received) is bytes:
                self.received = bytearray(self.received)
            self.received += data
        else:
            self.received = data
        self.is_receiving = True
        try:
            self.take_received()
        finally:
            self.is_receiving = False

    def go_on(self):
        """Handles the complete frames, unless the connection is held (see `hold`)."""
        self.take_received()

    cdef int take_received(self) except -1:
        cdef object buffer = self.received
        cdef Py_ssize_t taken = 0
        cdef bint was_held = True
        if self.is_going_on or self.transport is None:
            return 0
        self.is_going_on = True
        self.turn_began = 0
        self.received = b""
        try:
            while was_held and self.held == 0 and self.transport is not None:
                self.is_taking = True
                try:
                    taken += self.take(start_of(buffer) + taken, len(buffer) - taken)
                except BaseException:
                    self.fail()
                    raise
                finally:
                    self.is_taking = False
                was_held = self.held != 0
                # Sending an answer may release the connection.
                if self.held != 0 or self.places:
                    self.send()
        finally:
            self.is_going_on = False
        if self.transport is None:
            return 0
        if taken < len(buffer):
            self.received = buffer[taken:] if taken > 0 else buffer
        if self.held != 0:
            self.pause_if_held()
        return 0

    cdef int fail(self) except -1:
        # The requests that were taken are lost, so the connection is closed; otherwise the client would wait forever.
        if self.front is not None:
            self.front.drop_run()
        if self.transport is not None:
            transport, self.transport = self.transport, None
            transport.abort()
        return 0

    cdef Py_ssize_t take(self, const uint8_t *bytes_, Py_ssize_t size) except -1:
        # Returns the number of bytes taken.  A run consists of consecutive requests that the front has answered.
        cdef Py_ssize_t at = 0
        cdef Py_ssize_t run_start = 0
        cdef Py_ssize_t run_requests = 0
        cdef Py_ssize_t end
        cdef int32_t length
        cdef double now = self.time()
        cdef double read_at = seconds_now()
        while self.held == 0 and self.transport is not None and size - at >= SIZE_BYTES:
            length = ol_load_i32(bytes_ + at)
            if length < 0 or length > self.request_bytes_max:
                self.refuse_size(length)
                break
            end = at + SIZE_BYTES + length
            if end > size:
                if length > SMALL_REQUEST_BYTES_C:
                    self.expect(size - at)
                break
            self.last_request = read_at
            if self.front is not None and self.front.answer(bytes_ + at + SIZE_BYTES, <size_t>length, now):
                run_requests += 1
                at = end
                if (<Py_ssize_t>self.front.answers.size >= SEND_BYTES_C
                        or self.in_flight + run_requests >= self.in_flight_max):
                    self.send_run(bytes_ + run_start, at - run_start, run_requests, read_at)
                    run_start, run_requests = at, 0
                if length > SMALL_REQUEST_BYTES_C:
                    self.taken()
                continue
            if run_requests > 0:
                self.end_run(bytes_ + run_start, at - run_start, run_requests, read_at)
            frame = PyBytes_FromStringAndSize(<const char *>bytes_ + at + SIZE_BYTES, length)
            at = run_start = end
            run_requests = 0
            place = Place()
            self.add(place)
            if self.turn_began == 0:
                self.turn_began = perf_counter()
            self.handle(frame, place)
            if length > SMALL_REQUEST_BYTES_C:
                self.taken()
            if self.unsent >= SEND_BYTES_C:
                self.send()
            # `IN_FLIGHT` may end within this turn.  Other holds last longer, so other connections get their turn in any case.
            if at < size and not self.held & ~IN_FLIGHT_C and perf_counter() - self.turn_began >= TURN_SECONDS_C:
                self.held |= NEXT_TURN_C
                self.loop.call_soon(self.begin_turn)
        if run_requests > 0:
            self.send_run(bytes_ + run_start, at - run_start, run_requests, read_at)
        return at

    cdef int send_run(self, const uint8_t *frames, Py_ssize_t size, Py_ssize_t requests, double read_at) except -1:
        # Sent at once, if the run waits for no flush and no earlier answer is missing.
        cdef const char *answers = <const char *>self.front.answers.bytes
        cdef Py_ssize_t answers_size = <Py_ssize_t>self.front.answers.size
        cdef Py_ssize_t sent
        if self.front.waits() or self.places:
            return self.end_run(frames, size, requests, read_at)
        self.front.sent_bytes += answers_size
        sent = self.send_now(answers, answers_size)
        if sent < answers_size:
            self.send_later(PyBytes_FromStringAndSize(answers + sent, answers_size - sent))
        return self.front.count_run(read_at)

    cdef int end_run(self, const uint8_t *frames, Py_ssize_t size, Py_ssize_t requests, double read_at) except -1:
        cdef Place place = self.front.take_run(self, frames, <size_t>size, requests, read_at)
        self.add(place)
        if place.answer is not None:
            self.count_unsent(len(place.answer))
            if self.unsent >= SEND_BYTES_C:
                self.send()
        return 0

    cdef int count_unsent(self, Py_ssize_t size) except -1:
        self.unsent += size
        if self.unsent >= ANSWERS_AHEAD_BYTES_C:
            self.held |= IN_FLIGHT_C
        return 0

    cdef int add(self, Place place) except -1:
        self.places.append(place)
        self.in_flight += place.requests
        if self.in_flight >= self.in_flight_max:
            self.held |= IN_FLIGHT_C
        return 0

    # ------------------------------------------------------------------------------------------------ holding

    def hold(self, int reason):
        """Stops the handling of frames after the present frame.

        It continues after `release` is called with the same reason.
        """
        self.held |= reason
        if not self.is_taking:
            self.pause_if_held()

    cdef int pause_if_held(self) except -1:
        # Only a read shows that a client has disconnected, so some bytes are read ahead while the connection waits for
        # others.
        if self.held == WAITING_C and len(self.received) < SMALL_REQUEST_BYTES_C:
            return 0
        if self.held and not self.is_paused and self.transport is not None:
            self.is_paused = True
            self.transport.pause_reading()
        return 0

    def begin_turn(self):
        """Handles the frames that the last turn left over, unless there is another reason to hold the connection."""
        self.held &= ~NEXT_TURN_C
        self.go_on()
        self.resume_if_free()

    cdef int resume_if_free(self) except -1:
        if self.held == 0 and self.is_paused and self.transport is not None:
            self.is_paused = False
            self.transport.resume_reading()
        return 0

    def release(self, int reason):
        """Removes a reason to hold the connection.  If no other reason is left, reading continues."""
        self.held &= ~reason
        if self.held or self.transport is None:
            return
        self.resume_if_free()
        # Not called directly, because the release may come from sending an answer in the middle of another request.
        if self.received and not self.is_going_on:
            self.loop.call_soon(self.go_on)

    # ------------------------------------------------------------------------------------------------ answers

    def answered(self, Place place not None, bytes frame not None):
        """Sets the answer to the request at a place; b"" for no answer.  The answer is sent after all earlier ones."""
        place.answer = frame
        # The request is dropped now, although its answer may still wait for earlier ones.
        place.exchange = None
        self.settled(len(frame))

    def settled(self, Py_ssize_t size):
        """Records that a request now has its answer; `size` is the size of the answer in bytes."""
        self.count_unsent(size)
        if not self.is_taking:
            self.send()
            self.pause_if_held()

    cpdef send(self):
        """Sends the answers in order, up to the first request that has no answer yet."""
        cdef Place place
        cdef list frames = []
        cdef object places = self.places
        while places:
            place = places[0]
            if place.answer is None:
                break
            places.popleft()
            self.in_flight -= place.requests
            if place.answer:
                self.unsent -= len(place.answer)
                frames.append(place.answer)
        if frames and self.transport is not None:
            answers = frames[0] if len(frames) == 1 else b"".join(frames)
            if self.front is not None:
                self.front.sent_bytes += len(answers)
            self.write(answers)
        if self.held & IN_FLIGHT_C and self.in_flight < self.in_flight_max and self.unsent < ANSWERS_AHEAD_BYTES_C:
            self.release(IN_FLIGHT_C)
        if self.held & CLOSING_C and not places and self.transport is not None:
            self.drained()

    cdef int write(self, bytes answers) except -1:
        cdef Py_ssize_t sent = self.send_now(PyBytes_AS_STRING(answers), len(answers))
        if sent < len(answers):
            self.send_later(answers if sent == 0 else answers[sent:])
        return 0

    cdef Py_ssize_t send_now(self, const char *answers, Py_ssize_t size) except -1:
        # Returns the number of bytes sent.  Sends directly if nothing else waits to be sent, because a transport may send
        # only at the end of the loop's turn.
        if self.fd < 0 or not self.may_send():
            return 0
        # If the connection is broken, the transport will notice it too.
        return max(send(self.fd, answers, <size_t>size, MSG_DONTWAIT | MSG_NOSIGNAL), 0)

    cdef bint may_send(self) except -1:
        # A closing transport has released its file descriptor; a transport that has just received is not closing.
        if not self.is_receiving and self.transport.is_closing():
            return False
        if self.has_buffered:
            self.has_buffered = self.transport.get_write_buffer_size() > 0
        return not self.has_buffered

    cdef int send_later(self, bytes answers) except -1:
        self.has_buffered = True
        self.transport.write(answers)
        if self.held & SLOW_READER_C:
            self.unread(self.transport.get_write_buffer_size())
        return 0

    def forget(self):
        """Drops all requests whose answers have not been sent, because the connection has ended.

        Returns their places.
        """
        cdef object places = self.places
        self.places = deque()
        self.in_flight = self.unsent = 0
        self.received = b""
        return places


cdef const uint8_t *start_of(object buffer) except NULL:
    if type(buffer) is bytes:
        return <const uint8_t *>PyBytes_AS_STRING(buffer)
    return <const uint8_t *>PyByteArray_AS_STRING(buffer)
