"""Log: the one ordered, durable input. The contract is in `base`, the record types are in `records`.

`LocalLog` keeps segments in a folder, `JetStreamLog` (in `jetstream`, with the nats extra) blocks in a stream;
`MemoryLog` is their twin for tests. `open_log` chooses by address. `verify` and `inspect` look at a folder.
"""

from slackwater.log.address import open_log
from slackwater.log.base import Entry, Log
from slackwater.log.catalog import Catalog
from slackwater.log.local import LocalLog
from slackwater.log.memory import MemoryLog, MemoryStore
from slackwater.log.records import (
    Quarantined,
    Record,
    RecordKind,
    Registered,
    TableDefined,
    TableDropped,
    TimePassed,
    Unregistered,
    Updates,
    decode,
    encode,
)
from slackwater.log.retention import Retention, SegmentSpan
from slackwater.log.summary import ContentSummary, LogSummary, SegmentSummary, inspect
from slackwater.log.verify import Damage, Verification, verify

__all__ = [
    "Catalog",
    "ContentSummary",
    "Damage",
    "Entry",
    "LocalLog",
    "Log",
    "LogSummary",
    "MemoryLog",
    "MemoryStore",
    "Quarantined",
    "Record",
    "RecordKind",
    "Registered",
    "Retention",
    "SegmentSpan",
    "SegmentSummary",
    "TableDefined",
    "TableDropped",
    "TimePassed",
    "Unregistered",
    "Updates",
    "Verification",
    "decode",
    "encode",
    "inspect",
    "open_log",
    "verify",
]
