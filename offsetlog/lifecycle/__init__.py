"""A store from its opening to its close: partitions are opened, loaded and closed here."""
