"""The parts that packing can lose, over an installed wheel (`make wheel-test`) and over the source tree.

These are modules, data files, the console script, and the engine in each extension. The other tests do not run over
the wheel: it holds the same code.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import pkgutil
import subprocess
import sys
import sysconfig
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path

import pyarrow
import pytest

import offsetlog
from offsetlog import MaintenanceConfig, OffsetAndMetadata, TopicPartition
from offsetlog._native import codec, compress, decompress, encoding, records, status

ORDERS = [TopicPartition("orders", number) for number in range(3)]
EXTENSIONS = sorted(path.name.partition(".")[0] for path in (Path(str(files("offsetlog"))) / "_native").glob("*.so"))


def test_every_module_is_imported() -> None:
    for found in pkgutil.walk_packages(offsetlog.__path__, "offsetlog."):
        importlib.import_module(found.name)
    importlib.import_module("pyspark_offsetlog")


def test_every_public_name_is_there() -> None:
    assert all(getattr(offsetlog, name) is not None for name in offsetlog.__all__)


@pytest.mark.parametrize("name", EXTENSIONS)
def test_an_extension_has_its_stub(name: str) -> None:
    importlib.import_module(f"offsetlog._native.{name}")
    assert (files("offsetlog") / "_native" / f"{name}.pyi").is_file()


def test_pytest_finds_the_plugin() -> None:
    (found,) = (each for each in entry_points(group="pytest11") if each.value == "offsetlog.pytest")
    assert found.load().offsetlog_server is not None


def test_data_files_are_there() -> None:
    package = files("offsetlog")
    assert (package / "py.typed").is_file()
    assert (package / "spark" / "jobs" / "log4j2.properties").is_file()
    folder = package / "cli" / "demo" / "kafka-4.3.0"
    assert len([each for each in folder.iterdir() if each.name.startswith("__consumer_offsets-")]) == 8


def console(*arguments: object) -> subprocess.CompletedProcess[str]:
    script = Path(sys.executable).with_name("offsetlog")
    return subprocess.run([script, *map(str, arguments)], capture_output=True, text=True, timeout=60)


#: A free-threaded interpreter with PYTHON_GIL=0 has these flags; others do not accept the setting.
WITHOUT_THE_GIL = """
import sys
class Flags:
    gil = 0
    def __getattr__(self, name, real=sys.flags):
        return getattr(real, name)
sys.flags = Flags()
"""


def test_an_interpreter_that_keeps_the_gil_off_is_refused() -> None:
    def ended(program: str, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *options, "-c", program]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    forced = ("-X", "gil=0") if sysconfig.get_config_var("Py_GIL_DISABLED") else ()
    flags = "" if forced else WITHOUT_THE_GIL
    done = ended(f"{flags}\nimport offsetlog; offsetlog.open('absent')", *forced)
    assert "ImportError: offsetlog needs the GIL: remove PYTHON_GIL=0 or -X gil=0, which" in done.stderr
    done = ended(f"{flags}\nimport sys; from offsetlog.__main__ import main; sys.exit(main())", *forced)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("offsetlog: offsetlog needs the GIL")
    assert done.stderr.count("\n") == 1


def test_the_console_script(tmp_path: Path) -> None:
    done = console("--version")
    assert (done.stdout, done.stderr) == (f"offsetlog {offsetlog.__version__}\n", "")
    done = console("commit", tmp_path / "data", "billing", "orders:0=42", "--partitions", 2)
    assert (done.returncode, done.stdout.split(" (")[0]) == (0, "committed 1 offset of billing")
    done = console("fetch", tmp_path / "data", "billing", "--format", "json")
    assert (done.returncode, json.loads(done.stdout)["offset"]) == (0, 42)
    assert console("verify", tmp_path / "data").returncode == 0
    assert console("verify", tmp_path / "none").returncode == 2


def test_the_engine_without_a_store() -> None:
    text = bytes(range(256)) * 40
    for number in (1, 2, 3, 4):
        assert decompress.inflate(number, compress.deflate(number, text), len(text)) == text
    assert codec.crc32c(b"123456789") == 0xE3069283
    key = encoding.encode_key(1, {"group": "g", "topic": "t", "partition": 7})
    assert records.decode_key(key)["data"] == {"group": "g", "topic": "t", "partition": 7}
    assert status.status_name(0)


def test_the_engine_through_a_store(tmp_path: Path) -> None:
    by_hand = MaintenanceConfig(enabled=False)
    with offsetlog.open(tmp_path / "data", 2, maintenance=by_hand) as store:
        store.commit("billing", {ORDERS[0]: 42, ORDERS[1]: OffsetAndMetadata(7, "by hand", leader_epoch=3)})
        first = store.commit_one("billing", "orders", 0, 43)
        store.commit("billing", {ORDERS[0]: 45}, expected={ORDERS[0]: 43}, durability="process")
        store.commit_async("billing", {ORDERS[2]: 50}).result()

        async def consume() -> None:
            await store.commit_async("billing", {ORDERS[2]: 51})

        asyncio.run(consume())
        rows = {"group": ["audit", "audit"], "topic": ["orders"] * 2, "partition": [0, 1], "offset": [60, 9]}
        store.commit_arrow(pyarrow.table(rows))
        with store.transaction("billing", producer_id=7) as transaction:
            transaction.commit({ORDERS[1]: 70})
        expected = {ORDERS[0]: 45, ORDERS[1]: 70, ORDERS[2]: 51}
        assert {key: value.offset for key, value in store.fetch("billing").items()} == expected
        assert store.fetch("billing", at=first + 1)[ORDERS[0]].offset == 43
        assert store.fetch_arrow(["audit"]).num_rows == 2
        assert store.to_arrow().num_rows == 5
        assert store.delete("audit") == 2
        assert [found.last.offset for found in store.deletions("audit")] == [60, 9]
        digest = store.digest()
        store.snapshot()
        assert all(report.complete for report in store.compact())
        assert (store.verify(), store.digest()) == ([], digest)
    with offsetlog.open(tmp_path / "data", read_only=True) as store:
        assert store.digest() == digest
