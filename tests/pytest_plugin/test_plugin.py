"""The plugin as pytest sees it: found, light until it is used, and documented."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from tests.pages import module_of

#: A test that fails if its run has imported more of offsetlog than the plugin.
LIGHT = """
import sys

def test_that_needs_no_server():
    ours = sorted(name for name in sys.modules if name.startswith("offsetlog"))
    assert ours == ["offsetlog", "offsetlog.pytest"]
"""


def test_pytest_finds_it():
    (found,) = (each for each in entry_points(group="pytest11") if each.value == "offsetlog.pytest")
    # Else `-p offsetlog.pytest` would load it a second time.
    assert found.name == found.value


def test_nothing_of_the_server_is_imported_before_a_fixture_is_used(pytester):
    pytester.makepyfile(LIGHT)
    pytester.runpytest_subprocess("-p", "offsetlog.pytest").assert_outcomes(passed=1)


def test_the_fixtures_are_listed(pytester):
    listed = pytester.runpytest_subprocess("--fixtures")
    listed.stdout.fnmatch_lines(
        ["offsetlog_server_factory [[]session scope[]]*", "offsetlog_server --*"]
    )


@pytest.mark.source_tree
def test_the_example_of_the_page_runs(pytester):
    pytester.makepyfile(test_billing=module_of("docs/pytest.md", "test_billing"))
    pytester.makeconftest(module_of("docs/pytest.md", "conftest"))
    pytester.runpytest_subprocess("-W", "error").assert_outcomes(passed=4)


def test_one_server_for_many_tests_and_several_for_one(pytester):
    pytester.makeconftest("""
        import pytest

        @pytest.fixture(scope="module")
        def shared(offsetlog_server_factory):
            with offsetlog_server_factory(topic_partitions=3) as server:
                yield server
    """)
    pytester.makepyfile("""
        seen = []

        def test_one(shared, offsetlog_server):
            assert shared.port != offsetlog_server.port
            seen.append((shared, offsetlog_server))

        def test_two(shared, offsetlog_server, offsetlog_server_factory):
            assert shared is seen[0][0]
            assert offsetlog_server is not seen[0][1]
            left = offsetlog_server_factory()
            assert left.groups() == {}
    """)
    pytester.runpytest_subprocess("-W", "error").assert_outcomes(passed=2)


def test_a_failed_test_shows_the_fault_that_nobody_met(pytester):
    pytester.makepyfile("""
        def test_that_fails(offsetlog_server):
            with offsetlog_server.faults.error("NOT_COORDINATOR", group="billing"):
                pass
            assert False
    """)
    shown = pytester.runpytest_subprocess()
    shown.assert_outcomes(failed=1)
    shown.stdout.fnmatch_lines(
        ["*WARNING*released a fault that affected no request: *error 16 for OffsetCommit of group 'billing'; hits: 0>*"]
    )


def test_what_is_named_for_annotations():
    code = (
        "import offsetlog.pytest as plugin\n"
        "assert all(getattr(plugin, name).__name__ == name for name in plugin.__all__)\n"
        "assert not hasattr(plugin, 'OffsetLogServer')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
