"""ZooKeeper: a session with an ensemble, the offsets that old consumers keep there, and Kafka's own directories.

Everything here needs kazoo (the extra `zookeeper`); docs/zookeeper.md is the manual.
"""
