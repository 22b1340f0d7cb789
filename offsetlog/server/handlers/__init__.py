"""The handlers of requests, one module per subject; `HANDLERS` maps each API to its handler."""

from __future__ import annotations

from collections.abc import Callable

from offsetlog.server.exchange import Exchange
from offsetlog.server.handlers import cluster, configs, fetch, groups, logs, offsets, produce, topics
from offsetlog.server.node import NodeState

Handler = Callable[[NodeState, Exchange], None]

#: The handlers by the key of the API.
HANDLERS: dict[int, Handler] = {
    0: produce.produce,
    1: fetch.fetch,
    2: logs.list_offsets,
    3: cluster.metadata,
    8: offsets.offset_commit,
    9: offsets.offset_fetch,
    10: cluster.find_coordinator,
    11: groups.join_group,
    12: groups.heartbeat,
    13: groups.leave_group,
    14: groups.sync_group,
    15: groups.describe_groups,
    16: groups.list_groups,
    18: cluster.api_versions,
    19: topics.create_topics,
    20: topics.delete_topics,
    22: produce.init_producer_id,
    23: logs.offset_for_leader_epoch,
    32: configs.describe_configs,
    37: topics.create_partitions,
    42: groups.delete_groups,
    44: configs.incremental_alter_configs,
    47: offsets.offset_delete,
    60: cluster.describe_cluster,
}
cluster.SERVED.update(HANDLERS)
