"""docs/spark-clusters.md: commands for clusters that no test has. Spark's parsers take them, and know each setting."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pyspark
import pytest
import typer
from pyspark.sql import SparkSession

from offsetlog.cli.app import application
from tests.pages import fences
from tests.spark.spark_run import DEADLINE_SECONDS
from tests.test_documentation import indented

pytestmark = pytest.mark.source_tree

PAGES = ("docs/spark-clusters.md", "docs/spark.md")
ROOT = Path(__file__).resolve().parents[2]
SPARK_CLASS = Path(pyspark.__file__).with_name("bin") / "spark-class"
#: A command substitution stands for the program.
PROGRAM = re.compile(r"\$\(python -c '[^']*'\)")
#: Where Spark registers its settings as the class is loaded.
SETTINGS = (
    "org.apache.spark.internal.config.package$",
    "org.apache.spark.internal.config.Python$",
    "org.apache.spark.internal.config.Network$",
    "org.apache.spark.deploy.k8s.Config$",
    "org.apache.spark.deploy.yarn.config.package$",
    "org.apache.spark.sql.internal.SQLConf$",
    "org.apache.spark.sql.internal.StaticSQLConf$",
)
#: The rest of such a name is the user's.
PREFIXES = (
    "spark.executorEnv.",
    "spark.hadoop.",
    "spark.kubernetes.driver.volumes.",
    "spark.kubernetes.driverEnv.",
    "spark.kubernetes.executor.volumes.",
    "spark.yarn.appMasterEnv.",
)


def commands(page: str, program: str) -> list[list[str]]:
    """The calls of a program in the blocks of a page, each as its words."""
    text = "\n".join([*(block.code for block in fences(page)), *indented(page)]).replace("\\\n", " ")
    calls = re.findall(rf"^ *(?:\$ )?(?:export [^&\n]*&& +)?(?:\w+=\S+ +)*((?:\S*/)?{program} .*)$", text, re.MULTILINE)
    return [shlex.split(PROGRAM.sub("main.py", call)) for call in calls]


def parsed_by_offsetlog(words: list[str]) -> str:
    """Parses the words after `offsetlog`; returns the command's name, raises click's UsageError."""
    group: Any = typer.main.get_command(application())
    while hasattr(group, "commands"):
        name, words = words[0], words[1:]
        group = group.commands[name]
    group.make_parser(group.make_context(name, [], resilient_parsing=True)).parse_args(list(words))
    return name


@pytest.fixture(scope="module")
def jvm(spark: SparkSession) -> Any:
    found: Any = spark.sparkContext._jvm
    for name in SETTINGS:
        found.java.lang.Class.forName(name)
    return found


@pytest.mark.parametrize("words", commands(PAGES[0], "spark-submit") + commands(PAGES[1], "spark-submit"), ids=str)
def test_spark_submit_takes_it(jvm: Any, words: list[str]) -> None:
    utils = jvm.org.apache.spark.api.python.PythonUtils
    environment = utils.toScalaMap({"HADOOP_CONF_DIR": "/etc/hadoop/conf"})
    parsed = jvm.org.apache.spark.deploy.SparkSubmitArguments(utils.toSeq(words[1:]), environment)
    assert parsed.primaryResource().endswith(".py")
    arguments = [parsed.childArgs().apply(number) for number in range(parsed.childArgs().size())]
    assert not arguments or arguments[0] == "JOB" or parsed_by_offsetlog(["spark", *arguments])
    volumes = [word.partition("=") for word in words if ".volumes." in word]
    if volumes:
        conf = jvm.org.apache.spark.SparkConf(False)
        for name, _, value in volumes:
            conf.set(name, value)
        for who in ("driver", "executor"):
            prefix = f"spark.kubernetes.{who}.volumes."
            made = jvm.org.apache.spark.deploy.k8s.KubernetesVolumeUtils.parseVolumesWithPrefix(conf, prefix)
            assert [made.apply(number).mountPath() for number in range(made.size())] == ["/mnt/kafka-logs"]


def test_commands_were_found() -> None:
    assert [len(commands(page, "spark-submit")) for page in PAGES] == [2, 2]
    assert len(commands(PAGES[0], "spark-class")) == 2
    assert len(commands(PAGES[0], "offsetlog")) == 4


@pytest.mark.parametrize("words", commands(PAGES[0], "offsetlog"), ids=str)
def test_offsetlog_takes_it(words: list[str]) -> None:
    assert parsed_by_offsetlog(words[1:])


@pytest.mark.parametrize("words", commands(PAGES[0], "spark-class"), ids=lambda words: words[1].rpartition(".")[2])
def test_the_daemons_of_a_cluster_have_these_options(words: list[str]) -> None:
    call = [str(SPARK_CLASS), words[1], "--help"]
    usage = subprocess.run(call, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    known = set(re.findall(r"--[a-z-]+", usage.stdout + usage.stderr))
    assert {word for word in words if word.startswith("--")} <= known


def settings(page: str) -> set[str]:
    """The settings of Spark that a page names: in a command, in a program, or by themselves."""
    text = (ROOT / page).read_text()
    name = r"(spark(?:\.\w+){2,})"
    forms = (rf"--conf\s+{name}=", rf'config\("{name}"', rf"`{name}(?:=[^`]*)?`")
    return {key for form in forms for key in re.findall(form, text)}


@pytest.mark.parametrize("page", PAGES)
def test_spark_has_these_settings(jvm: Any, page: str) -> None:
    named = {key for key in settings(page) if not key.startswith(PREFIXES)}
    entry = jvm.org.apache.spark.internal.config.ConfigEntry
    assert len(named) > 5
    assert [key for key in sorted(named) if entry.findEntry(key) is None] == []


def test_a_setting_that_spark_does_not_have_is_noticed(jvm: Any) -> None:
    assert jvm.org.apache.spark.internal.config.ConfigEntry.findEntry("spark.executor.memoryOverheads") is None


def test_the_image_is_of_the_version_that_tests_run() -> None:
    assert f"FROM apache/spark:{pyspark.__version__}\n" in "".join(indented(PAGES[0]))
