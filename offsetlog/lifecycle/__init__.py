"""The lifecycle of a store: its partitions are opened, loaded and closed here."""
