"""The rules of replication of one partition of the offsets log (docs/architecture.md §7).

Everything here is pure: no files, no sockets, no threads, no clock and no random numbers.  The host
gives the time with each call, in milliseconds of a monotonic clock, and carries out what it gets
back.  A broker, a simulation and a test therefore run the same rules.  No object of this package is
safe to share between threads without a lock of the caller's.

* `messages`: the messages between replicas and the controller.
* `in_sync`, `progress`: the leader's view of its replicas, W, and changes of the in-sync set.
* `leader`: the answer to a follower's fetch.
* `follower`: fetches, and what a follower does with their answers.
* `lease`: for how long a leader may answer fetches, and the controller elects nobody else.
* `election`: the controller's state of a partition, and elections.
"""
