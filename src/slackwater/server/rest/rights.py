"""Rows of a table under the rights of a caller."""

import pyarrow as pa

from slackwater.core.region import EVERYTHING
from slackwater.server.rest.operation import Call


def visible_rows(call: Call, table: str) -> pa.RecordBatch:
    """The rows of a table that the caller may see."""
    host, region = call.node.engine.host, call.node.registrar.rights.of(call.caller.name).of(table)
    return host.latest(table).rows if region == EVERYTHING else host.select(table, region)


def visible_count(call: Call, table: str) -> int:
    """How many they are."""
    region = call.node.registrar.rights.of(call.caller.name).of(table)
    return len(call.node.engine.host.latest(table)) if region == EVERYTHING else visible_rows(call, table).num_rows
