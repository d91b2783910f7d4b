"""Upstream places: the history of each upstream's log under which an aggregator writes, kept in its folder."""

from pathlib import Path

import msgspec

from slackwater.aggregator.upstream.state import History
from slackwater.core.durable_file import replace_file
from slackwater.core.errors import StoreError

PLACES_FILE = "upstreams.json"


class _PlainHistory(msgspec.Struct):
    incarnation: int
    shift: int


class UpstreamPlaces:
    """Reads the histories when it is made, and replaces the file durably when one changes."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / PLACES_FILE
        try:
            plain = msgspec.json.decode(self._path.read_bytes(), type=dict[str, _PlainHistory])
        except FileNotFoundError:
            plain = {}
        except (OSError, msgspec.MsgspecError) as error:
            raise StoreError(f"{self._path} cannot be read: {error}; put it back from a copy or remove it") from error
        self._histories = {name: History(one.incarnation, one.shift) for name, one in plain.items()}

    def of(self, name: str) -> History:
        """The history under which was written last for an upstream."""
        return self._histories.get(name, History())

    def keep(self, name: str, history: History) -> None:
        """Make the history of an upstream durable, unless it is."""
        if self.of(name) != history:
            changed = self._histories | {name: history}
            plain = {name: _PlainHistory(one.incarnation, one.shift) for name, one in changed.items()}
            replace_file(self._path, msgspec.json.encode(plain))
            self._histories = changed
