"""Commit of a micro-batch from the reports of its tasks: pure, except for the store it is given."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from slackwater.core.errors import SchemaError, StoreError
from slackwater.core.lineage import Place
from slackwater.core.schema import TableSchema
from slackwater.core.types import Position
from slackwater.pipeline.tables.layout import Kind
from slackwater.pipeline.tables.manifest import RecentFile, Settled, TableState
from slackwater.pipeline.tables.reports import Covered, Defined, Dropped, Kept, Report
from slackwater.pipeline.tables.store import TableStore


def begin(store: TableStore, place: Place, tables: Iterable[TableSchema]) -> None:
    """Let a folder that follows no log yet begin at a place, with the tables that there are by then."""
    settled = store.state.settled
    for schema in tables:
        settled = _defined(settled, schema, place.position)
    store.commit(place=place, begun=place.position, settled=settled)


def commit_batch(store: TableStore, reports: Sequence[Report]) -> int:
    """Make a micro-batch count; return how many positions it brought, 0 if it had been committed before."""
    covered = [report for report in reports if isinstance(report, Covered)]
    end = _end(store.state.position, covered)
    if end == store.state.position:
        return 0
    settled, recent = store.state.settled, list(store.state.manifest.recent)
    events = [report for report in reports if isinstance(report, Kept | Defined | Dropped)]
    for event in sorted(events, key=lambda event: event.first):
        match event:
            case Kept(recent=file):
                if file.kind is Kind.UPDATES and settled.find(file.table) is None:
                    raise StoreError(
                        f"from position {event.first} on the log holds rows of {file.table}, never defined"
                    )
                recent.append(file)
            case Defined(first=position, schema=schema):
                settled = _defined(settled, schema, position)
            case Dropped(table=table):
                settled, recent = _dropped(settled, recent, table)
    grown = end - store.state.position
    store.commit(
        place=Place(covered[0].incarnation, Position(end)),
        recent=recent,
        settled=None if settled is store.state.settled else settled,
        batches=store.state.manifest.batches + 1,
    )
    return grown


def _end(position: int, covered: Sequence[Covered]) -> int:
    """Where the batch ends; what it covers must follow on what was committed, without a hole."""
    for report in sorted(covered, key=lambda report: report.first):
        if report.first != position:
            raise StoreError(
                f"a micro-batch brought position {report.first} where {position} was next; the stream's checkpoint "
                f"and the manifest do not belong together: remove the folder checkpoint, the manifest is enough"
            )
        position = report.end
    return position


def _defined(settled: Settled, schema: TableSchema, position: int) -> Settled:
    present = settled.find(schema.name)
    if present is None:
        return settled.with_table(TableState(schema, position))
    if present.schema == schema:
        return settled
    try:
        present.schema.check_change(schema)
    except SchemaError as error:
        raise StoreError(
            f"at position {position} the log defines table {schema.name} in a way that does not follow from the one "
            f"that was loaded here: {error}; use a new folder"
        ) from error
    return settled.with_table(replace(present, schema=schema))


def _dropped(settled: Settled, recent: list[RecentFile], table: str) -> tuple[Settled, list[RecentFile]]:
    """Without a table: its latest rows and its history go, what was refused for it stays."""
    state = settled.find(table)
    latest = [bucket.file.path for bucket in state.latest] if state else []
    history = [one.file.path for one in settled.history if one.table == table]
    own = [one for one in recent if one.kind is Kind.UPDATES and one.table == table]
    settled = replace(
        settled,
        tables=tuple(one for one in settled.tables if one.schema.name != table),
        history=tuple(one for one in settled.history if one.table != table),
        retired=(*settled.retired, *latest, *history, *(one.file.path for one in own)),
    )
    return settled, [one for one in recent if one not in own]
