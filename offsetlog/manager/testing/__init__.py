"""The contract suite: tests everything that OffsetManager promises, for any manager.

The suite needs pytest, which offsetlog itself does not need.  A harness creates the managers.  The
capabilities that the harness declares decide which tests run.  For a missing capability, the suite
tests that the calls are refused.

To test a manager from the command line, name a harness class, an instance of one, or a list of
these::

    pytest -p offsetlog.manager.testing.plugin --offset-manager package.module:MyHarness
        --pyargs offsetlog.manager.testing

To run the suite among your own tests, add the plugin to conftest.py, and write a module of two
lines::

    pytest_plugins = ["offsetlog.manager.testing.plugin"]

    from offsetlog.manager.testing.test_contract import *
    offset_managers = [MyHarness()]
"""

import pkgutil

import pytest

pytest.register_assert_rewrite(
    *(f"{__name__}.{each.name}" for each in pkgutil.iter_modules(__path__))
)
