"""The manager that keeps positions in a log and in ZooKeeper, for the way from one to the other."""
