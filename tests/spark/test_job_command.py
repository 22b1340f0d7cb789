"""`offsetlog spark`: that its commands are there, cost nothing before they run, and tell failures in one line."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("typer")

from offsetlog import errors
from offsetlog.spark.jobs.commands import audit
from offsetlog.spark.jobs.commands.options import check_vacant, failure_of, told_plainly


def started(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("program", ["offsetlog", "offsetlog.spark"])
def test_help_loads_no_pyspark(program):
    arguments = ["spark", "audit", "--help"] if program == "offsetlog" else ["audit", "--help"]
    code = (
        "import runpy, sys\n"
        f"sys.argv = [{program!r}, *{arguments!r}]\n"
        "try:\n"
        f"    runpy.run_module({program!r}, run_name='__main__', alter_sys=True)\n"
        "finally:\n"
        "    print('loaded', *{name.partition('.')[0] for name in sys.modules} & {'pyspark', 'matplotlib', 'numpy'})\n"
    )
    found = started("-c", code)
    assert found.returncode == 0, found.stderr
    assert "Usage: offsetlog spark audit" in found.stdout
    assert found.stdout.splitlines()[-1] == "loaded"


def test_what_an_executor_raised_is_raised_again():
    text = (
        "[PYTHON_DATA_SOURCE_ERROR] Failed when reading\nTraceback (most recent call last):\n  File ...\n"
        "offsetlog.errors.CorruptionError: the checksum is wrong (data/__consumer_offsets-0/0.log, byte 120)\n\tat org"
    )
    failure = failure_of(text)
    assert type(failure) is errors.CorruptionError
    assert str(failure) == "the checksum is wrong (data/__consumer_offsets-0/0.log, byte 120)"


def test_what_spark_says_is_one_line():
    assert str(failure_of("[UNRESOLVED_COLUMN] a column\n;\n'Project")) == "Spark: [UNRESOLVED_COLUMN] a column"
    assert str(failure_of("")) == "Spark: no reason given"
    # A name that is none of our errors is none.
    assert type(failure_of("offsetlog.errors.Status: 1")) is errors.OffsetLogError


def test_faults_of_ours_stay_what_they_are():
    with pytest.raises(ZeroDivisionError), told_plainly():
        _ = 1 / 0


def test_a_directory_with_something_is_not_written_to(tmp_path):
    check_vacant(str(tmp_path), overwrite=False)
    check_vacant(str(tmp_path / "none"), overwrite=False)
    check_vacant("s3://bucket/there", overwrite=False)
    (tmp_path / "file").touch()
    check_vacant(str(tmp_path), overwrite=True)
    with pytest.raises(errors.ConfigError, match="--overwrite"):
        check_vacant(str(tmp_path), overwrite=False)
    for overwrite in (False, True):
        with pytest.raises(errors.ConfigError, match="no directory"):
            check_vacant(str(tmp_path / "file"), overwrite)


def test_a_report_that_cannot_be_written_is_told_before_the_audit(tmp_path, monkeypatch):
    (tmp_path / "there.html").touch()
    monkeypatch.setattr(audit, "spark_for", None)
    for report, why in (
        (tmp_path, "it is a directory"),
        (tmp_path / "there.html", "--overwrite"),
        (tmp_path / "none" / "audit.html", "no such directory"),
    ):
        with pytest.raises(errors.ConfigError, match=why):
            audit.command(str(tmp_path), report=report)
    monkeypatch.setattr(audit, "find_spec", lambda name: None)
    with pytest.raises(errors.ConfigError, match="matplotlib"):
        audit.command(str(tmp_path), report=tmp_path / "audit.html")
