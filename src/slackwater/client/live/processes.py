"""Processes of a node: tells a process that was replaced from the one that replaced it.

A process has a generation, which rises with every start of its node. A node that was restored without its store begins
to count anew; its log then goes on under an incarnation that was never seen of it. So a lower generation is of an old
process only under an incarnation that is known; and where it alone answers several times in a row, it is the one that
lives.
"""

from dataclasses import dataclass, field

MOST_KNOWN = 64
"""Incarnations that are remembered of a node."""

MOST_REFUSALS = 4
"""Answers of one process in a row, each to an `Open` of its own, that prove that it is the one that lives: a node whose
folder is not kept begins to count anew with each start."""


@dataclass(slots=True)
class NodeProcesses:
    """What has been heard of one node.

    >>> node = NodeProcesses()
    >>> [node.accepts(*one) for one in ((3, 70), (4, 71), (3, 70), (1, 72), (2, 72))]
    [True, True, False, True, True]
    """

    generation: int = 0
    _incarnations: dict[int, None] = field(default_factory=dict)
    _refused: tuple[int, int] | None = None
    _refusals: int = 0

    def accepts(self, generation: int, incarnation: int) -> bool:
        """Note a process that answers; False if another one has replaced it."""
        if generation < self.generation and incarnation in self._incarnations:
            process = (generation, incarnation)
            self._refusals = self._refusals + 1 if process == self._refused else 1
            self._refused = process
            if self._refusals < MOST_REFUSALS:
                return False
        self.generation, self._refused = generation, None
        self._incarnations.pop(incarnation, None)
        self._incarnations[incarnation] = None
        if len(self._incarnations) > MOST_KNOWN:
            del self._incarnations[next(iter(self._incarnations))]
        return True
