"""The compiled floor: one .pyx is one extension over the C engine.  Not part of the public interface."""
