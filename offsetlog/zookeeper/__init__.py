"""ZooKeeper: a session with an ensemble, the offsets of old consumers, and Kafka's own directories.

Everything here needs kazoo (the extra `zookeeper`); docs/zookeeper.md is the manual.
"""
