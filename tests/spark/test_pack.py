"""The archive for executors: what is in it, which Python starts it, and an executor that has nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("pyspark")

from offsetlog import errors
from offsetlog.cli.app import run
from offsetlog.spark import packing
from offsetlog.spark.source import check_planner

DATA = Path(__file__).parent.parent / "data" / "kafka-4.3.0" / "txn" / "log"
#: The interpreter of the environment of the tests, without its packages.
BASE = Path(sys.base_prefix) / "bin"
SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


@pytest.fixture
def small(monkeypatch):
    """Without the two that are large."""
    monkeypatch.setattr(packing, "OF_SPARK", {*packing.OF_SPARK, "numpy", "pyarrow"})


@pytest.fixture
def tiny(small, monkeypatch):
    """Without most of offsetlog either: for tests of the archive, and not of what is in it."""
    root = Path(packing.offsetlog.__file__).parent
    monkeypatch.setattr(packing, "_offsetlog_files", lambda: {"offsetlog/errors.py": root / "errors.py"})


def plain_environment(**more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR", "JAVA_HOME", "LANG") if name in os.environ}
    return {**kept, "PATH": f"{BASE}:/usr/bin:/bin", **more}


def called(program: Path | str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    # With -c the working directory is on the path of modules.
    return subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, timeout=60, cwd="/", env=plain_environment(**more)
    )


def unpacked(archive: Path, target: Path) -> Path:
    with tarfile.open(archive) as opened:
        opened.extractall(target, filter="data")
    return target


# ------------------------------------------------------------------------------------------------------ the archive


def test_the_base_interpreter_has_no_offsetlog():
    # Else the tests below would show nothing.
    assert "No module named 'offsetlog'" in called(BASE / "python3", "-c", "import offsetlog").stderr


def test_an_archive_runs_on_an_interpreter_without_offsetlog(small, tmp_path):
    packed = packing.pack(tmp_path / "e.tar.gz")
    assert packed.size == (tmp_path / "e.tar.gz").stat().st_size
    assert {"offsetlog", "xxhash", "kazoo"} == set(packed.packages)
    root = unpacked(tmp_path / "e.tar.gz", tmp_path / "moved" / "here and there")
    about = json.loads((root / "offsetlog-pack.json").read_text())
    assert about["packages"] == packed.packages
    assert (about["python"], about["abi"], about["libc"]) == (packed.python, packed.abi, packed.libc)
    there = {path.relative_to(root / SITE).as_posix() for path in (root / SITE).rglob("*") if path.is_file()}
    assert {"offsetlog/spark/scan/batch.py", "pyspark_offsetlog/__init__.py"} <= there
    assert not [name for name in there if name.endswith((".pyx", ".pyc", ".c", ".h"))]
    assert os.path.getsize(root / SITE / "offsetlog" / "errors.py") > 0
    assert packed.unpacked_size == sum(
        path.stat().st_size for path in root.rglob("*") if not path.is_symlink() and path.is_file()
    )
    program = "import xxhash, kazoo; from offsetlog._native import files; print(files.__file__, xxhash.__file__)"
    code = called(root / "bin" / "python", "-c", program)
    assert code.returncode == 0, code.stderr
    assert code.stdout.count(f"{root}/{SITE}/") == 2
    # The arguments, and what the executor sets, get through.
    code = called(
        root / "bin" / "python3", "-c", "import sys; print(sys.path, sys.argv[1:])", "a b", PYTHONPATH="/of/spark"
    )
    assert "'/of/spark'" in code.stdout
    assert code.stdout.endswith("['a b']\n")


def test_the_same_packages_make_the_same_archive(tiny, tmp_path):
    for name in ("a.tar.gz", "b.tgz"):
        packing.pack(tmp_path / name)
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tgz").read_bytes()


@pytest.mark.parametrize(
    ("abi", "libc", "said"),
    [
        ("cpython-39-x86_64-linux-gnu", None, f"its ABI is {packing._abi()}"),
        (packing._abi(), (99, 1), "it has glibc 2."),
    ],
)
def test_an_interpreter_that_does_not_fit_is_refused(tmp_path, abi, libc, said):
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    for name, text in packing._own_files(python, abi, libc, {}).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text)
    launcher = tmp_path / "bin" / "python"
    launcher.chmod(0o755)
    code = called(launcher, "-c", "print(1)")
    assert (code.returncode, code.stdout) == (1, "")
    assert f"which needs Python {python} ({abi})" in code.stderr
    assert said in code.stderr
    assert code.stderr.count("\n") == 1
    # It is not taken for an interpreter where it is on the path itself.
    code = called(launcher, "-c", "print(1)", PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert code.returncode == 1
    assert "it is the launcher itself" in code.stderr


def test_an_interpreter_off_the_path_is_named(tiny, tmp_path):
    packing.pack(tmp_path / "e.tgz")
    root = unpacked(tmp_path / "e.tgz", tmp_path / "e")
    own = BASE / f"python{sys.version_info.major}.{sys.version_info.minor}"
    (tmp_path / "elsewhere").symlink_to(own)
    code = called(
        root / "bin" / "python", "-c", "print(1)", PATH="/usr/bin:/bin", OFFSETLOG_PYTHON=str(tmp_path / "elsewhere")
    )
    assert (code.returncode, code.stdout) == (0, "1\n"), code.stderr


def test_the_oldest_libc_is_read_from_the_extensions(tmp_path):
    first, second, third = tmp_path / "a.so", tmp_path / "b.cpython-311-x86_64-linux-gnu.so", tmp_path / "c.py"
    first.write_bytes(b"GLIBC_2.5\0GLIBC_PRIVATE\0GLIBCXX_3.4.30\0")
    second.write_bytes(bytes((1 << 20) - 7) + b"\0GLIBC_2.28\0" + bytes(99))
    third.write_bytes(b"GLIBC_9.9")
    assert packing.needed_glibc([first, third]) == (2, 17)
    assert packing.needed_glibc([first, second, third]) == (2, 28)


# -------------------------------------------------------------------------------------------------- where it is written


def test_what_is_there_is_kept(tiny, tmp_path, monkeypatch):
    target = tmp_path / "e.tar.gz"
    target.write_bytes(b"old")
    with pytest.raises(errors.ConfigError, match=r"exists already; --overwrite"):
        packing.pack(target)

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(packing, "_add", no_space)
        with pytest.raises(errors.StorageError, match="cannot be written"):
            packing.pack(target, overwrite=True)
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]
    packing.pack(target, overwrite=True)
    assert tarfile.is_tarfile(target)
    assert list(tmp_path.iterdir()) == [target]


def test_what_comes_meanwhile_is_kept(tiny, tmp_path, monkeypatch):
    target = tmp_path / "e.tar.gz"
    real = packing._add

    def racing(*arguments: object) -> None:
        target.write_bytes(b"of another")
        real(*arguments)

    monkeypatch.setattr(packing, "_add", racing)
    with pytest.raises(errors.ConfigError, match="exists already"):
        packing.pack(target)
    assert target.read_bytes() == b"of another"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("e.zip", errors.ConfigError, r"must end in \.tar\.gz or \.tgz"),
        ("environment", errors.ConfigError, r"must end in"),
        ("none/e.tgz", errors.MissingFileError, "the directory to write to does not exist"),
        ("folder.tgz", errors.ConfigError, "must be a file, not a directory"),
    ],
)
def test_a_place_where_nothing_can_be_written(tmp_path, name, kind, said):
    (tmp_path / "folder.tgz").mkdir()
    for overwrite in (False, True):
        with pytest.raises(kind, match=said):
            packing.pack(tmp_path / name, overwrite=overwrite)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.tgz"]


# ------------------------------------------------------------------------------------------------------ the packages


def installed(site: Path, name: str, *, needs: tuple[str, ...] = (), editable: bool = False) -> None:
    """Puts a package into a directory as pip does."""
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0", *(f"Requires-Dist: {each}" for each in needs)]
    (folder / "METADATA").write_text("\n".join(lines) + "\n")
    (site / f"{name}.py").write_text("1\n")
    (folder / "RECORD").write_text(f"{name}.py,,\n{folder.name}/METADATA,,\n../../../bin/{name},,\n")
    if editable:
        (folder / "direct_url.json").write_text('{"dir_info": {"editable": true}, "url": "file:///src"}')


def test_a_driver_in_the_cluster_gets_the_commands():
    found = packing.closure(["offsetlog[cli]"])
    assert {"offsetlog", "numpy", "pyarrow", "xxhash", "typer", "rich", "pygments"} <= set(found)
    assert "pyspark" not in found
    assert "typer" not in packing.closure(["offsetlog"])


def test_packages_come_with_what_they_need(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    installed(tmp_path, "first", needs=("second[more]>=1", "never; python_version < '3'", "pyspark"))
    installed(tmp_path, "second", needs=("third; extra == 'more'", "fourth; extra == 'other'"))
    installed(tmp_path, "third", needs=("First",))
    assert sorted(packing.closure(["FIRST"])) == ["first", "second", "third"]
    assert sorted(packing.closure(["second"])) == ["second"]
    assert sorted(packing.closure(["second", "second[more]"])) == ["first", "second", "third"]
    with pytest.raises(errors.ConfigError, match="fourth is not installed here, but second needs it"):
        packing.closure(["second[other]"])
    with pytest.raises(errors.ConfigError, match="nothing-like-it is not installed here, but it was requested"):
        packing.closure(["nothing-like-it"])
    for name in ("two words", "../x", ""):
        with pytest.raises(errors.ConfigError, match="not the name of a package"):
            packing.closure([name])


def test_a_package_of_links_is_refused(tiny, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    installed(tmp_path, "linked", editable=True)
    with pytest.raises(errors.ConfigError, match=r"linked is installed as a link to its sources \(pip install --edit"):
        packing.pack(tmp_path / "e.tgz", ["linked"])
    installed(tmp_path, "unlisted")
    (tmp_path / "unlisted-1.0.dist-info" / "RECORD").unlink()
    with pytest.raises(errors.ConfigError, match="unlisted has no list of its files"):
        packing.pack(tmp_path / "e.tgz", ["unlisted"])


def test_the_command(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(tmp_path / "site")
    installed(tmp_path / "site", "further")
    target = str(tmp_path / "e.tar.gz")
    assert run(["spark", "pack", target, "--with", "further", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["packages"]["further"] == "1.0"
    assert report["bytes"] == Path(target).stat().st_size
    with tarfile.open(target) as archive:
        assert f"{SITE}/further.py" in archive.getnames()
        assert not [name for name in archive.getnames() if ".." in name]
    assert run(["spark", "pack", target]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert run(["spark", "pack", target, "--overwrite"]) == 0
    printed = capsys.readouterr().out
    assert "MiB unpacked" in printed
    assert f"--conf spark.archives={target}#environment" in printed


# --------------------------------------------------------------------------------------------------------- the driver


def test_the_driver_plans_with_the_python_of_the_workers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_planner("python3")
    check_planner(sys.executable)
    with pytest.raises(
        errors.ConfigError, match=f"unpack the workers' archive so that {tmp_path}/environment/bin/python exists"
    ):
        check_planner("./environment/bin/python")
    with pytest.raises(
        errors.ConfigError, match="/nowhere/python, which is not a program on the driver, where Spark needs it"
    ):
        check_planner("/nowhere/python")
    (tmp_path / "environment" / "bin").mkdir(parents=True)
    (tmp_path / "environment" / "bin" / "python").write_text("#!/bin/sh\n")
    with pytest.raises(errors.ConfigError):
        check_planner("./environment/bin/python")
    (tmp_path / "environment" / "bin" / "python").chmod(0o755)
    check_planner("./environment/bin/python")


_ON_A_CLUSTER = """
import json, sys
from pyspark import TaskContext
from pyspark.sql import SparkSession
from offsetlog.spark.source import register

spark = SparkSession.builder.config("spark.archives", sys.argv[1] + "#environment").getOrCreate()
print("application", spark.sparkContext.applicationId, flush=True)
register(spark)

def where(_):
    import offsetlog
    yield offsetlog.__file__

found = spark.sparkContext.parallelize([1], 1).mapPartitions(where).collect()
rows = spark.read.format("offsetlog").option("view", "offsets").load(sys.argv[2]).collect()
print(json.dumps([found, [[row.group, row.topic, row.partition, row.offset] for row in rows]]))
spark.stop()
"""


@pytest.mark.long
@pytest.mark.spark
def test_an_executor_runs_from_the_archive(tmp_path):
    """A cluster whose only Python has no offsetlog reads a view; the driver plans from the archive as well."""
    import pyspark

    archive = tmp_path / "environment.tar.gz"
    packing.pack(archive)
    unpacked(archive, tmp_path / "environment")
    settings = {
        "spark.master": "local-cluster[1,1,1024]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(tmp_path / "local"),
    }
    given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    environment = plain_environment(
        PYSPARK_PYTHON="./environment/bin/python",
        SPARK_LOCAL_IP="127.0.0.1",
        PYSPARK_SUBMIT_ARGS=" ".join([*given, "pyspark-shell"]),
    )
    program = [sys.executable, "-c", _ON_A_CLUSTER, str(archive), str(DATA)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=900, env=environment, cwd=tmp_path)
    lines = done.stdout.splitlines()
    work = Path(pyspark.__file__).parent / "work"
    # Such a cluster keeps the directories of its executors beside Spark's jars.
    for application in (line.split()[1] for line in lines if line.startswith("application ")):
        shutil.rmtree(work / application, ignore_errors=True)
    with contextlib.suppress(OSError):
        work.rmdir()
    assert done.returncode == 0, done.stderr[-4000:]
    (loaded,), rows = json.loads(lines[-1])
    assert loaded.endswith(f"/environment/{SITE}/offsetlog/__init__.py")
    expected = []
    for line in (DATA.parent / "expected" / "offsets.tsv").read_text().splitlines():
        group, topic, partition, offset, *_ = line.split("\t")
        expected.append([json.loads(group), topic, int(partition), int(offset)])
    assert sorted(rows) == sorted(expected)
