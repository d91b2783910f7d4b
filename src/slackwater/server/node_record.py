"""Record of a node in its store: the generation, and the view of registrations; made good after a full disk.

A node opens on a full disk too, and serves what it has. Its generation cannot be made durable then, so it takes one
that no other opening takes: the time in microseconds, which is above all counted ones. The store gets it once there is
room.
"""

import logging
from collections.abc import Callable, Sequence

from slackwater.core.clock import Clock
from slackwater.core.errors import StoreError
from slackwater.core.types import Position
from slackwater.hosting.step import Registration
from slackwater.server.store import Store, StoreFull

_report = logging.getLogger("slackwater.server")


class NodeRecord:
    """Writes what a node keeps about itself; `behind` while the store lacks some of it."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._generation = 0
        self.behind = False

    def begin(self, former: int, registrations: Sequence[Registration], position: Position) -> int:
        """Begin a generation after a former one; returns it."""
        try:
            self._generation = self._store.next_generation(former)
            self._store.keep_registrations(registrations, position)
        except StoreFull as error:
            _report.error("read only until there is room: %s", error)
            self.behind = True
            self._generation = self._generation or max(self._store.generation, former, self._clock.now()) + 1
        return self._generation

    def change(
        self,
        changed: Sequence[Registration],
        gone: Sequence[int],
        position: Position,
        everything: Sequence[Registration],
    ) -> None:
        """Bring the view to a position: by what changed, or by everything where it is behind. For any thread."""

        def write(store: Store) -> None:
            if self.behind:
                store.next_generation(self._generation - 1)
                store.keep_registrations(everything, position)
            else:
                store.change_registrations(changed, gone, position)

        self._try(write)

    def end(self, registrations: Sequence[Registration], position: Position) -> None:
        """Leave the view as of a position."""
        self._try(lambda store: store.keep_registrations(registrations, position))

    def _try(self, write: Callable[[Store], None]) -> None:
        try:
            with Store(self._store.path) as store:
                write(store)
        except StoreError as error:
            # The log has it all, so the service goes on.
            if not self.behind:
                _report.error("%s", error)
            self.behind = True
        else:
            self.behind = False
