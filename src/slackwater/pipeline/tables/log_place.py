"""Place of a folder of tables in its log: whether the log holds it, and what to do where it does not.

Tables of another history are put aside and made anew where that loses nothing: the log begins at 0, and all rows came
from a log. Rows that were loaded from files are not in any log; then the operator decides.
"""

import logging
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from slackwater.core.errors import PositionGone, StoreError
from slackwater.core.lineage import Place
from slackwater.core.types import Position
from slackwater.log import Log
from slackwater.log.extent import LogExtent, PlaceRelation
from slackwater.pipeline.source import offset_place
from slackwater.pipeline.tables.commit import begin
from slackwater.pipeline.tables.reports import Covered, Report
from slackwater.pipeline.tables.store import CHECKPOINT, TableStore

_report = logging.getLogger("slackwater.pipeline")


def stand(store: TableStore, log: Log, address: Path) -> None:
    """Have the folder stand at a place that the log holds, anew where it must be; refuse where that loses something."""
    place = store.state.place
    if store.state.manifest.begun >= 0 and LogExtent.of(log).relation(place) is PlaceRelation.FOREIGN:
        _begin_anew(store, log, address)
    if store.state.manifest.begun < 0:
        # The log may have dropped its beginning; it still knows the tables defined there.
        begin(store, LogExtent.of(log).place(log.start), log.catalog(log.start))
    place, extent = store.state.place, LogExtent.of(log)
    if place.position < log.start:
        raise PositionGone(
            f"{store.folder} stands at position {place.position}, but the log at {address} now starts at "
            f"{log.start}: what lies between was dropped before it was read; use a new folder"
        )
    if extent.relation(place) is PlaceRelation.AHEAD:
        raise StoreError(
            f"{store.folder} stands at position {place.position}, but the log at {address} ends at {extent.end}: "
            f"after a restore let the server open the log before, else name the log that belongs to this folder"
        )
    _drop_checkpoint(store.folder / CHECKPOINT, extent)


def check_reports(store: TableStore, log: Log, reports: Sequence[Report]) -> None:
    """Refuse a micro-batch unless the log holds where it begins and where it ends: both are of one history then."""
    extent = LogExtent.of(log)
    ends = [Place(one.incarnation, Position(one.end)) for one in reports if isinstance(one, Covered)]
    if any(extent.relation(place) is not PlaceRelation.HELD for place in (store.state.place, *ends)):
        raise StoreError(
            f"the log was replaced while a micro-batch for {store.folder} was read; nothing of it was taken, start the "
            f"pipeline again to go on"
        )


def _begin_anew(store: TableStore, log: Log, address: Path) -> None:
    place = store.state.place
    told = (
        f"{store.folder} was made up to position {place.position} of incarnation {place.incarnation}, which is no part "
        f"of the log at {address}: it was restored from a copy, or is another log"
    )
    if log.start > 0:
        raise StoreError(
            f"{told}; it begins at position {log.start}, so what came before cannot be made again: put back the copy "
            f"of the folder that belongs to the log, or name a new folder"
        )
    if store.state.settled.loads:
        loaded = ", ".join(one.source for one in store.state.settled.loads[:5])
        raise StoreError(
            f"{told}; files were loaded into it that no log has ({loaded}): put back the copy of the folder that "
            f"belongs to the log, or name a new folder and load them again"
        )
    aside = store.begin_anew()
    _report.warning("%s; the tables are made anew from the log, and what was there is in %s", told, aside)


def _drop_checkpoint(folder: Path, extent: LogExtent) -> None:
    """Remove Spark's memory of a micro-batch that the log does not hold; the manifest is enough."""
    last = None
    with suppress(OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        newest = max((folder / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
        last = offset_place(msgspec.json.decode(newest.read_bytes().splitlines()[-1]))
    if last is None or extent.relation(last) is not PlaceRelation.HELD:
        shutil.rmtree(folder, ignore_errors=True)
