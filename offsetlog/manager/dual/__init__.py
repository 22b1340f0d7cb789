"""The manager that keeps positions in a log and in ZooKeeper, for moving from ZooKeeper to the log."""
