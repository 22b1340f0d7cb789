"""The memory of idle connections."""

from __future__ import annotations

import resource
import socket
from contextlib import ExitStack, closing

from benchmarks.results import Figure
from benchmarks.server.contenders import Ours
from benchmarks.workload import Run, workload
from offsetlog.protocol import encode_request
from offsetlog.protocol.messages import ApiVersionsRequest

GOAL_KB = 20.0


@workload("idle", "<= 20 KB a connection")
def idle(run: Run) -> None:
    """Ten thousand connections, each of which has sent one request."""
    count = run.size(10_000, 100)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asked = encode_request(ApiVersionsRequest("benchmark", "1"), 3, 1, "benchmark")
    with ExitStack() as opened:
        ours = opened.enter_context(closing(Ours(run.new_directory(), "process")))
        before = ours.resident_bytes
        for _ in range(count):
            connection = opened.enter_context(socket.create_connection(("127.0.0.1", ours.port)))
            connection.sendall(asked)
            if not connection.recv(65_536):
                raise AssertionError("the server closed a connection")
        each = (ours.resident_bytes - before) / count / 1000
    run.condition(f"{count:,} connections, each with one answered request; growth of the resident memory")
    run.report.figures.append(Figure("offsetlog", "KB a connection", each, each, each))
    if not run.options.smoke:
        run.report.goal_size("offsetlog", GOAL_KB)
