"""The compiled part of offsetlog.  Each .pyx file is one extension over the C engine.

It is not part of the public interface.

Several extensions rely on the GIL instead of a lock of their own.  A free-threaded CPython turns the GIL on when it
loads the first of them, unless the user forbids that.  In this case, no extension may be loaded: two commits at once
could corrupt the table.
"""

import sys

# Only PYTHON_GIL=0 and -X gil=0 make this 0, and only a free-threaded CPython accepts them.
if getattr(sys.flags, "gil", None) == 0:
    raise ImportError(
        "offsetlog needs the GIL: remove PYTHON_GIL=0 or -X gil=0, which keeps the GIL off (docs/packages.md)"
    )
