"""The contract suite: tests everything that OffsetManager promises, for any manager.

It needs pytest, which offsetlog itself does not.  A harness creates the managers.  The capabilities
that it declares decide which tests run; for a missing one, the suite tests that calls are refused.

On the command line, for a class or an instance, or a list of several::

    pytest -p offsetlog.manager.testing.plugin --offset-manager package.module:MyHarness
        --pyargs offsetlog.manager.testing

In tests of one's own, the plugin is a line of conftest.py, and a module of two lines has the
suite::

    pytest_plugins = ["offsetlog.manager.testing.plugin"]

    from offsetlog.manager.testing.test_contract import *
    offset_managers = [MyHarness()]
"""

import pkgutil

import pytest

pytest.register_assert_rewrite(
    *(f"{__name__}.{each.name}" for each in pkgutil.iter_modules(__path__))
)
