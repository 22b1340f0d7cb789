"""The rules of replication of one partition of the offsets log (docs/architecture.md §7).

The code of this package is pure: it uses no files, no sockets, no threads, no clock and no random
numbers.  The host, which is the caller, passes the time to each call, in milliseconds of a
monotonic clock, and carries out the actions that are returned.  A broker, a simulation and a test
therefore run the same rules.

Threads may share an object of this package only if the caller protects it with a lock.

* `messages`: the messages between replicas and the controller.
* `in_sync`, `progress`: the leader's view of its replicas, W (the high watermark), and changes of
  the in-sync set.
* `leader`: the answer to a follower's fetch.
* `follower`: fetches, and what a follower does with their answers.
* `lease`: how long a leader may answer fetches; during that time, the controller elects no other
  leader.
* `election`: the controller's state of a partition, and elections.
"""
