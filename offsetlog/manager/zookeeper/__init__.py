"""The manager that keeps positions in ZooKeeper, as consumers before Kafka 0.9 did."""
