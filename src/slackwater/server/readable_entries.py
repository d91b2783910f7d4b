"""Readable entries: reading a log that stops early where the operating system refuses to read on."""

from collections.abc import Iterator

from slackwater.core.errors import SlackwaterError
from slackwater.core.system_errors import system_error
from slackwater.log import Entry


class ReadableEntries:
    """Entries of a log up to the first that cannot be read now; then `failure` says why.

    An engine applies what it has been given, as at the end of a log, and its position says where to read on. A failure
    in the middle of a step would lose what the step has done so far.
    """

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._entries = entries
        self.failure: Exception | None = None

    def __iter__(self) -> Iterator[Entry]:
        try:
            yield from self._entries
        except (SlackwaterError, OSError) as error:
            if system_error(error) is None:
                raise
            self.failure = error
