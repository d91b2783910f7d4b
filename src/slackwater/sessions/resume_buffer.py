"""Resume buffer: the last change of each row of a selection, bounded; reconnecting clients resume from it.

A reconnecting client that still holds the rows of an earlier position gets these changes instead of a snapshot; a
client that gets an earlier encoded snapshot gets them with it.
"""

from slackwater.dissemination.messages import Delete, Upsert, WireRow


class ResumeBuffer:
    """Facts about single rows, the oldest first; complete for all positions from `floor` on.

    >>> recent = ResumeBuffer(most=2)
    >>> for position in (1, 2, 3):
    ...     recent.put(position, Delete(7, 0, (position,)))
    >>> recent.floor, [fact.key for fact in recent.since(2) or ()], recent.since(0)
    (1, [(3,)], None)
    """

    __slots__ = ("_facts", "_most", "floor")

    def __init__(self, most: int) -> None:
        self._most = most
        self._facts: dict[WireRow, tuple[int, Upsert | Delete]] = {}
        self.floor = 0

    def put(self, position: int, fact: Upsert | Delete) -> None:
        """Add a change of the step that ends at `position`."""
        # A dictionary keeps the order of insertion: taking the key out first moves it to the end.
        self._facts.pop(fact.key, None)
        self._facts[fact.key] = (position, fact)
        if len(self._facts) > self._most:
            oldest = next(iter(self._facts))
            self.floor = max(self.floor, self._facts.pop(oldest)[0])

    def forget(self, position: int) -> None:
        """Drop all changes before this position."""
        self._facts.clear()
        self.floor = max(self.floor, position)

    def since(self, position: int) -> list[Upsert | Delete] | None:
        """The rows that changed after a position, or None where that is not known any more."""
        if position < self.floor:
            return None
        found = []
        for changed, fact in reversed(self._facts.values()):
            if changed <= position:
                break
            found.append(fact)
        return found
