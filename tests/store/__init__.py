"""The store as a program uses it: what is promised by offsetlog.open and OffsetStore."""
