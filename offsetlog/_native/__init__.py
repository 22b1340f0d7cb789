"""The compiled part: each .pyx is one extension over the C engine.  Not part of the public interface."""
