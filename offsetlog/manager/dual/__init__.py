"""The manager that keeps positions both in a log and in ZooKeeper, for a migration to the log."""
