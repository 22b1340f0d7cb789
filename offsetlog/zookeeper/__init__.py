"""ZooKeeper: a session with an ensemble, the offsets of old consumers, and Kafka's own directories.

All modules of this package need kazoo, which the extra `zookeeper` installs.  docs/zookeeper.md is their manual.
"""
