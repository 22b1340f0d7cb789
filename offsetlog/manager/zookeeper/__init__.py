"""The manager that keeps positions in ZooKeeper, where consumers before Kafka 0.9 kept theirs."""
