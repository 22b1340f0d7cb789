"""The manager that keeps positions in ZooKeeper, where consumers of Kafka before 0.9 kept theirs."""
