"""Every job refuses a log that is not whole; with --permissive it goes on, says so, and marks what it writes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsetlog import errors
from offsetlog.cli.app import application
from offsetlog.cli.spark.session import own_failures
from offsetlog.spark.jobs import completeness, lag, repartition
from offsetlog.spark.jobs.session import read_view
from offsetlog.spark.jobs.snapshot import NOTE

from .missing_parts import FAULTS, build, lose_half_of_the_end, remove_a_middle, remove_the_directory, segments_of

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::offsetlog.errors.CorruptionWarning")]

JOBS = ("snapshot", "audit", "lag", "diff", "diff from", "compact-report", "repartition", "migrate", "verify")

_DIFFERENT = (lose_half_of_the_end, remove_a_middle, remove_the_directory)
#: Every job with one loss, and two of them with each.
GONE_ON = sorted(
    {(job, _DIFFERENT[number % 3]) for number, job in enumerate(JOBS)}
    | {(job, fault) for job in ("snapshot", "repartition") for fault in _DIFFERENT},
    key=lambda pair: (pair[0], pair[1].__name__),
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("whole") / "data", "closed")


def run(*arguments: object):
    return CliRunner().invoke(application("spark"), ["spark", *map(str, arguments)], standalone_mode=False)


def run_job(job: str, log: Path, whole: Path, folder: Path, *more: str):
    """Runs a job over a log, and lets it write to `folder / "out"` if it writes."""
    out = folder / "out"
    ends, dump = folder / "ends.json", folder / "dump.jsonl"
    ends.write_text(json.dumps({"topic": "t", "partition": 0, "log_end_offset": 5000}) + "\n")
    dump.write_text(json.dumps({"group": "new", "topic": "orders", "partition": 0, "offset": 100}) + "\n")
    arguments: dict[str, list[object]] = {
        "snapshot": ["snapshot", log, out],
        "audit": ["audit", log, "--output", out],
        "lag": ["lag", log, "--ends", ends, "--output", out],
        "diff": ["diff", whole, log, "--output", out],
        "diff from": ["diff", log, whole, "--output", out],
        "compact-report": ["compact-report", log, "--output", out],
        "repartition": ["repartition", log, out, "--partitions", 3],
        "migrate": ["migrate", log, "--dump", dump, "--dry-run"],
        "verify": ["verify", log],
    }
    return run(*arguments[job], *more)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_every_job_refuses_what_is_not_whole(spark, whole, tmp_path, fault: Callable[[Path], None]):
    log = Path(shutil.copytree(whole, tmp_path / "data"))
    fault(log)
    for job in JOBS:
        done = run_job(job, log, whole, tmp_path)
        if job == "verify":
            assert done.return_value == 1, done.output
            assert "problem: log partition 0:" in done.stderr
        else:
            assert isinstance(done.exception, errors.CorruptionError), f"{job}: {done.output}"
            assert done.exception.log_partition in (0, None)
        assert not (tmp_path / "out").exists()


def raise_a_base_offset(log: Path) -> str:
    """One bit of a batch in the middle of a segment, so that it claims to lie after the log; returns its place."""
    path = max(segments_of(log), key=lambda each: each.stat().st_size)
    content = bytearray(path.read_bytes())
    position = 12 + int.from_bytes(content[8:12], "big")
    content[position + 5] ^= 1
    path.write_bytes(content)
    return f"{path}, byte {position}"


def test_every_job_refuses_a_base_offset_that_cannot_be_right(spark, whole, tmp_path):
    log = Path(shutil.copytree(whole, tmp_path / "data"))
    place = raise_a_base_offset(log)
    for job in JOBS:
        folder = tmp_path / job
        folder.mkdir()
        done = run_job(job, log, whole, folder)
        if job == "verify":
            assert done.return_value == 1, done.output
            assert place in done.stderr
        elif job != "migrate":
            assert done.exception is not None, f"{job}: {done.output}"
            with pytest.raises(errors.CorruptionError) as caught, own_failures():
                raise done.exception
            assert place in str(caught.value), job
        # Spark leaves the directory of a table whose writing failed.
        assert not list(folder.rglob("part-*.parquet"))


@pytest.mark.parametrize("job", JOBS)
def test_a_whole_log_is_not_marked(spark, whole, tmp_path, job):
    log = Path(shutil.copytree(whole, tmp_path / "data"))
    done = run_job(job, log, whole, tmp_path, "--permissive")
    assert done.return_value == 0, done.output
    assert "incomplete" not in done.stderr
    assert not list(tmp_path.rglob(completeness.MARK))
    assert not list(tmp_path.rglob(repartition.INCOMPLETE))


@pytest.mark.parametrize(("job", "fault"), GONE_ON, ids=lambda each: each if isinstance(each, str) else each.__name__)
def test_with_permissive_the_output_says_that_it_is_incomplete(spark, whole, tmp_path, job, fault):
    log = Path(shutil.copytree(whole, tmp_path / "data"))
    fault(log)
    done = run_job(job, log, whole, tmp_path, "--permissive")
    out = tmp_path / "out"
    if job == "verify":
        # The digests are of what is there, which both ways read.
        assert done.return_value == 0, done.output
        assert "problem: log partition 0:" in done.stderr
        return
    assert done.return_value == 1, done.output
    assert "incomplete: " in done.stderr
    if job == "migrate":
        return
    if job == "snapshot":
        [lacking] = json.loads((out / NOTE).read_text())["incomplete"]
    elif job == "repartition":
        # Each checkpoint that knows more than the log has is a line.
        lacking = (out / repartition.INCOMPLETE).read_text().splitlines()[0]
    elif job.startswith("diff"):
        [lacking] = json.loads((out / completeness.MARK).read_text())["incomplete"]
    else:
        marks = json.loads((out / completeness.MARK).read_text())
        assert marks.keys() == {each.name for each in out.iterdir() if each.is_dir()}
        [lacking] = {text for each in marks.values() for text in each["incomplete"]}
    assert "log partition 0" in lacking
    assert "is missing" in lacking or "says" in lacking or "are missing" in lacking, lacking


@pytest.mark.parametrize("more", [(), ("--permissive",)])
def test_a_snapshot_names_the_witnesses_that_are_missing(spark, whole, tmp_path, more):
    log = Path(shutil.copytree(whole, tmp_path / "data"))
    manifest = segments_of(log)[0].with_name("offsetlog.manifest")
    manifest.unlink()
    done = run_job("snapshot", log, whole, tmp_path, *more)
    assert done.return_value == 0, done.output
    note = json.loads((tmp_path / "out" / NOTE).read_text())
    [doubt] = note["doubts"]
    assert doubt.startswith("PossibleLossError: the manifest is missing")
    assert str(manifest) in doubt
    assert note["incomplete"] == []
    assert run_job("snapshot", whole, whole, tmp_path, "--overwrite").return_value == 0
    assert json.loads((tmp_path / "out" / NOTE).read_text())["doubts"] == []


def test_damage_is_marked_as_well(spark, whole, tmp_path):
    log = Path(shutil.copytree(whole, tmp_path / "data"))
    middle = segments_of(log)[1]
    content = bytearray(middle.read_bytes())
    content[200] ^= 1
    middle.write_bytes(content)
    done = run_job("snapshot", log, whole, tmp_path)
    assert isinstance(done.exception, errors.CorruptionError)
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    done = run_job("snapshot", log, whole, tmp_path, "--permissive")
    assert done.return_value == 1, done.output
    assert middle.name in json.loads((tmp_path / "out" / NOTE).read_text())["incomplete"][0]


def test_a_mark_goes_with_the_tables_that_it_was_for(spark, whole, tmp_path):
    log = Path(shutil.copytree(whole, tmp_path / "data"))
    lose_half_of_the_end(log)
    assert run_job("lag", log, whole, tmp_path, "--permissive").return_value == 1
    assert (tmp_path / "out" / completeness.MARK).exists()
    assert run_job("lag", whole, whole, tmp_path, "--overwrite").return_value == 0
    assert not (tmp_path / "out" / completeness.MARK).exists()


def test_an_audit_says_first_what_it_could_see(spark, tmp_path):
    data = build(tmp_path / "data", "cleaned")
    done = run("audit", data, "--report", tmp_path / "audit.html")
    assert done.return_value == 0, done.output
    assert "of the log was cleaned away" in done.stdout.splitlines()[0]
    assert "so no stall or silence can be found" in done.stdout.splitlines()[1]
    page = (tmp_path / "audit.html").read_text()
    assert page.index('id="coverage"') < page.index('class="tiles"')
    assert "No offset went down" not in page
    assert "Every position moved" not in page
    done = run("audit", data, "--format", "json")
    assert 0 < json.loads(done.stdout)["coverage"]["cleaned_share"] < 1


def test_views_of_a_pipeline_refuse_as_well(spark, whole, tmp_path):
    """Not only the commands: what a DataFrame is made of asks by itself."""
    log = Path(shutil.copytree(whole, tmp_path / "data"))
    remove_the_directory(log)
    for view in ("commits", "history", "offsets", "groups", "records", "batches"):
        reader = spark.read.format("offsetlog").option("view", view)
        with pytest.raises(Exception, match=r"DataLossError: .*mode=permissive"):
            reader.load(str(log)).count()
        assert reader.option("mode", "permissive").load(str(log)).where("problem is not null").count() == 1
    with pytest.raises(Exception, match="DataLossError"):
        lag.keys(spark, log)


def test_a_state_that_the_log_cannot_tell_is_reported(spark, whole, tmp_path):
    """It is no problem of the records, which are all there: they are those that a cleaner left."""
    log = build(tmp_path / "data", "cleaned")
    at = json.dumps({"0": 60, "1": 60})
    assert isinstance(run("snapshot", log, tmp_path / "out", "--at", at).exception, errors.HistoryError)
    done = run("snapshot", log, tmp_path / "out", "--at", at, "--permissive")
    assert done.return_value == 1, done.output
    lacking = json.loads((tmp_path / "out" / NOTE).read_text())["incomplete"]
    assert [text.partition(": HistoryError")[0] for text in lacking] == ["log partition 0"]
    done = run("diff", log, whole, "--at", at, "--permissive", "--output", tmp_path / "changes")
    assert done.return_value == 1, done.output
    assert done.stderr.count("incomplete: ") == 1
    [text] = json.loads((tmp_path / "changes" / completeness.MARK).read_text())["incomplete"]
    assert text.startswith(f"{log}: log partition 0: HistoryError: ")


def test_a_problem_that_nobody_reports_ends_the_job(spark, whole, tmp_path):
    """As a file that cannot be read any more after the log was read for its problems."""
    log = Path(shutil.copytree(whole, tmp_path / "data"))
    reported = completeness.problems_of(spark, log, "offsets", permissive=True)
    assert reported == ()
    lose_half_of_the_end(log)
    with pytest.raises(errors.DataLossError, match="run the job again"), own_failures():
        read_view(spark, log, "offsets", permissive=True, reported=reported).collect()
    reported = completeness.problems_of(spark, log, "offsets", permissive=True)
    kept = read_view(spark, log, "offsets", permissive=True, reported=reported)
    assert kept.count() == read_view(spark, log, "offsets", permissive=True).count() > 0
    # A diff names the log first.
    kept = read_view(spark, log, "offsets", permissive=True, reported=[f"{log}: {each}" for each in reported])
    assert kept.count() > 0
