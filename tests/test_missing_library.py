"""A missing library is named with a command that installs it wherever this package came from."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

from offsetlog import errors
from offsetlog.cli.top import samples
from offsetlog.missing_library import REQUIREMENTS, missing_library
from offsetlog.server.properties import read_properties
from offsetlog.spark.targets import KafkaTarget
from offsetlog.zookeeper.connection import ConnectionSettings, ZooKeeperConnection

pytestmark = pytest.mark.gate

ROOT = Path(__file__).parent.parent


@pytest.fixture
def without(monkeypatch):
    def take(*names: str) -> None:
        for module in list(sys.modules):
            if module.partition(".")[0] in names:
                monkeypatch.delitem(sys.modules, module)
        for name in names:
            monkeypatch.setitem(sys.modules, name, None)

    return take


def test_the_message_names_what_is_missing_and_nothing_else(without):
    without("kazoo")
    assert str(missing_library("ZooKeeper", "kazoo")) == (
        "ZooKeeper needs kazoo, which is not installed: pip install 'kazoo>=2.10'"
    )
    assert str(missing_library("it", "kazoo", "packaging")) == (
        "it needs kazoo, which is not installed: pip install 'kazoo>=2.10'"
    )
    without("packaging")
    assert str(missing_library("it", "kazoo", "packaging")) == (
        "it needs kazoo and packaging, which are not installed: pip install 'kazoo>=2.10' 'packaging>=22'"
    )


@pytest.mark.source_tree
def test_the_requirements_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = {requirement for extra in project["optional-dependencies"].values() for requirement in extra}
    assert set(REQUIREMENTS.values()) <= known


@pytest.mark.source_tree
def test_no_other_place_says_what_to_install():
    package = ROOT / "offsetlog"
    named = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"pip install [^-.]", path.read_text())
    }
    assert named == {"missing_library.py"}


@pytest.mark.source_tree
def test_no_document_installs_the_package_by_a_name_that_no_index_offers():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    asking = re.compile(r"pip install[^`\n]*'offsetlog\[")
    assert [page.name for page in pages if asking.search(page.read_text())] == []


class Imports(ast.NodeVisitor):
    """The libraries that a module imports when it runs."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.found |= {name.name.partition(".")[0] for name in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level == 0:
            self.found.add(str(node.module).partition(".")[0])


@pytest.mark.source_tree
def test_the_package_imports_only_what_its_distribution_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *extras["cli"], *extras["server"], *extras["zookeeper"], *extras["spark"]]
    libraries = {re.split(r"[<>=\[]", text)[0].replace("-", "_") for text in asked}
    imports = Imports()
    for path in (ROOT / "offsetlog").rglob("*.py"):
        imports.visit(ast.parse(path.read_text()))
    # click comes with typer, py4j with pyspark; pytest loads its plugins; who asks a cluster installs its client.
    others = {"offsetlog", "click", "py4j", "pytest", "confluent_kafka"}
    assert imports.found - sys.stdlib_module_names - libraries - others == set()


def properties_of_a_server(path: Path) -> None:
    file = path / "server.properties"
    file.write_text("")
    read_properties(file)


USES = {
    "javaproperties": properties_of_a_server,
    "prometheus_client": lambda path: samples.parse("", 0.0),
    "kazoo": lambda path: ZooKeeperConnection(ConnectionSettings(hosts="127.0.0.1:1")),
    "confluent_kafka": lambda path: KafkaTarget({"bootstrap.servers": "127.0.0.1:1"}),
}


@pytest.mark.parametrize("module", USES)
def test_a_feature_without_its_library_says_what_to_install(tmp_path, without, module):
    without(module)
    with pytest.raises(errors.ConfigError) as caught:
        USES[module](tmp_path)
    assert str(caught.value).endswith(f"not installed: pip install '{REQUIREMENTS[module]}'")
