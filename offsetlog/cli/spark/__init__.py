"""The list of the commands `offsetlog spark <job>`.

Each command is a module that loads PySpark and its job only when it runs.  `options` holds the options that several
commands share; `session` runs their jobs.
"""

from __future__ import annotations

DESCRIPTION = """Run jobs over whole log directories on Spark. This needs the extra offsetlog[spark] and Java 17.

A job runs in this process on all cores or, with --master, on a cluster. To run the same commands through spark-submit,
give it the file offsetlog/spark/__main__.py, then JOB and the arguments of JOB.
"""

#: The package that holds the modules of the commands.
PACKAGE = "offsetlog.cli.spark"
#: The names of the commands, in the order in which they are listed.
COMMANDS = ("audit", "lag", "compact_report", "repartition", "snapshot", "diff", "verify", "migrate", "pack")
