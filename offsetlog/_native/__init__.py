"""The compiled part of offsetlog.  Each .pyx file is one extension over the C engine.

It is not part of the public interface.
"""
