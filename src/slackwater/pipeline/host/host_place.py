"""Place of a Spark host in its log: whether the log holds what was published, and what to do where it does not.

A log that was restored from a copy may not hold it, nor does another log. Then the publication log is put aside and
begun anew, if the log still has its first record; else the rows before are not known, and the host is refused.
"""

import logging

from slackwater.core.errors import PositionGone, StoreError
from slackwater.hosting.publication_log import PublicationWriter
from slackwater.log.address import shown
from slackwater.log.extent import LogExtent, PlaceRelation
from slackwater.pipeline.source import opened

_report = logging.getLogger("slackwater.pipeline")


class HostPlace:
    """Relates a publication log to the log that it is made from."""

    def __init__(self, log: str, publications: PublicationWriter) -> None:
        self._log = log
        self._publications = publications
        self._told = False

    def extent(self) -> LogExtent:
        """Look at the log."""
        return LogExtent.of(opened(self._log))

    def check_start(self) -> None:
        """Refuse a log that dropped what was not published yet."""
        start, position = opened(self._log).start, self._publications.replica.position
        if position < start:
            raise PositionGone(
                f"{self._publications.folder} stands at position {position}, but the log at {shown(self._log)} now "
                f"starts at {start}: what lies between was dropped, and without it the rows are not known"
            )

    def relation(self, extent: LogExtent) -> PlaceRelation:
        """How what was published relates to the log; one line reports that the log shows less."""
        place = self._publications.replica.place
        relation = extent.relation(place)
        if relation is PlaceRelation.AHEAD and not self._told:
            _report.warning(
                "%s stands at position %d, and the log at %s ends at %d: waiting until it shows more, or its writer "
                "opens it",
                self._publications.folder,
                place.position,
                shown(self._log),
                extent.end,
            )
        self._told = relation is PlaceRelation.AHEAD
        return relation

    def begin_anew(self) -> None:
        """Put aside what another history left, and begin the publication log at 0; refuse where the log lacks that."""
        folder, place, start = self._publications.folder, self._publications.replica.place, opened(self._log).start
        told = (
            f"{folder} was made up to position {place.position} of incarnation {place.incarnation}, which is no part "
            f"of the log at {shown(self._log)}: it was restored from a copy, or is another log"
        )
        if start > 0:
            raise StoreError(
                f"{told}; it begins at position {start}, so the rows before are not known: put back the copy of "
                f"{folder} that belongs to the log, or name a new folder and a log that begins at 0"
            )
        aside = self._publications.begin_anew()
        _report.warning("%s; everything is made anew from the log, and what was there is in %s", told, aside)
