"""Says which library a feature of offsetlog lacks, and what to install.  No other module names packages.

The message names the library, but never an extra of offsetlog.  pip finds `offsetlog[...]` only if a package index
offers offsetlog.  A user who installed a wheel or a source tree may not have such an index.
"""

from __future__ import annotations

from importlib.util import find_spec

from offsetlog.errors import ConfigError

#: The requirement of each optional library, by the name of its module.  Only the code that uses such a library imports
#: it, and the extras in pyproject.toml list it.
REQUIREMENTS = {
    "typer": "typer>=0.12,<0.29",
    "rich": "rich>=13",
    "javaproperties": "javaproperties>=0.8",
    "prometheus_client": "prometheus-client>=0.20",
    "kazoo": "kazoo>=2.10",
    "pyspark": "pyspark>=4.0",
    "matplotlib": "matplotlib>=3.8",
    "packaging": "packaging>=22",
    "confluent_kafka": "confluent-kafka>=2.5",
}


def missing_library(user: str, *modules: str) -> ConfigError:
    """Creates the error for a feature whose library is not installed.

    Any thread may call this function.  It does not import the modules.

    Args:
        user: the name of the feature, as the subject of the message, such as "the command line".
        modules: the modules of REQUIREMENTS that the feature imports.  The message names those that are not installed.
            If all are installed, one of them lacks a library of its own, so the message names all of them.

    Returns:
        The error, which the caller raises.
    """
    missing = [name for name in modules if find_spec(name) is None] or modules
    requirements = [REQUIREMENTS[name] for name in missing]
    names = " and ".join(requirement.partition(">")[0] for requirement in requirements)
    verb = "is" if len(requirements) == 1 else "are"
    wanted = " ".join(f"'{requirement}'" for requirement in requirements)
    return ConfigError(f"{user} needs {names}, which {verb} not installed: pip install {wanted}")
