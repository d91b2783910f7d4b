"""Region: the rows of a table that a condition selects, as a union of disjoint boxes.

A `Box` gives an extent for some columns and lets the others be anything. A `Region` is a finite union of
pairwise disjoint boxes, so that counting, routing and shipping never see a row twice. Both are closed under
intersection and difference; `Region` also under union and complement.

Mathematics
    Difference of boxes. For columns c₁..cₖ that the subtracted box b constrains,
        a ∖ b  =  ⋃ᵢ  a ∧ (c₁ ∈ b₁) ∧ … ∧ (cᵢ₋₁ ∈ bᵢ₋₁) ∧ (cᵢ ∉ bᵢ),
    whose terms are disjoint because term i satisfies conditions 1..i−1 and breaks condition i.

    Size. A range without n values is n+1 ranges, and along k columns such pieces multiply. So every operation stops at
    the first box more than `MOST_BOXES`, and its work is in proportion to what it was given and to that number.
    Whether boxes meet is a question of each column by itself and cuts nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeAlias

from slackwater.core.errors import AlgebraError
from slackwater.core.extent import Categories, Extent, Missing, Place, everything, hull, intersect, meets, subtract
from slackwater.core.types import Scalar

MOST_BOXES = 4096
"""A region of more boxes than this is refused: alternating conditions on many columns multiply."""

MOST_COMPARED = 200_000
"""A difference that takes more comparisons of boxes than this is refused."""
_FEW_SIDES = 8
_PLAIN = 8
"""Boxes that are taken away one after the other, without being put in order first."""

ValueOf: TypeAlias = Callable[[str], Scalar | None]
"""Accessor of a row: from column name to value (`{"price": 3.0}.get` will do)."""


@dataclass(frozen=True, slots=True)
class Side:
    """Constraint of a box on one column: an extent."""

    column: str
    extent: Extent


@dataclass(frozen=True, slots=True)
class Box:
    """A conjunction of conditions, at most one extent for a column; sides are kept in order of their names.

    >>> from slackwater.core.extent import Interval
    >>> cheap = Box.of(Side("price", Interval(None, 3000, high_open=True)))
    >>> cheap.contains({"price": 2500.0, "year": 1998}.get)
    True
    """

    sides: tuple[Side, ...] = ()

    def __post_init__(self) -> None:
        names = [side.column for side in self.sides]
        if names != sorted(set(names)):
            raise AlgebraError("a box names each column once and in order; make it with Box.of")
        if any(side.extent.empty for side in self.sides):
            raise AlgebraError("a box with an empty side holds nothing; leave it out of the region instead")

    @classmethod
    def of(cls, *sides: Side) -> "Box":
        """Make a box from sides in any order."""
        return cls(tuple(sorted(sides, key=lambda side: side.column)))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns this box constrains."""
        return tuple(side.column for side in self.sides)

    @property
    def weight(self) -> int:
        """Size for limits on work: the box, its sides and every value of a category."""
        values = sum(len(side.extent.values) for side in self.sides if isinstance(side.extent, Categories))
        return 1 + len(self.sides) + values

    def extent(self, column: str) -> Extent | None:
        """What the column may be, or None where it may be anything."""
        for side in self.sides:
            if side.column == column:
                return side.extent
        return None

    def contains(self, value_of: ValueOf) -> bool:
        """Whether the row whose column values `value_of` looks up lies in the box."""
        # Asked for every row: a loop is quicker than `all` of a generator.
        for side in self.sides:  # noqa: SIM110
            if not side.extent.contains(value_of(side.column)):
                return False
        return True

    def intersect(self, other: "Box") -> tuple["Box", ...]:
        """What lies in both boxes: usually none or one box, several where categories cut an interval."""
        if not self.meets(other):
            return ()
        boxes: tuple[Box, ...] = (self,)
        for side in other.sides:
            boxes = _few(part for box in boxes for part in box._narrow(side))
        return boxes

    def meets(self, other: "Box") -> bool:
        """Whether anything lies in both boxes."""
        # Of a box of many sides each is found at once, of one of few it is quicker to look through them.
        known = {side.column: side.extent for side in self.sides} if len(self.sides) > _FEW_SIDES else None
        for side in other.sides:
            own = self.extent(side.column) if known is None else known.get(side.column)
            if own is not None and not meets(own, side.extent):
                return False
        return True

    def subtract(self, other: "Box") -> tuple["Box", ...]:
        """What lies in this box and not in the other, as disjoint boxes."""
        if not self.meets(other):
            return (self,)
        outside: tuple[Box, ...] = ()
        inside: tuple[Box, ...] = (self,)
        for number, side in enumerate(other.sides, 1):
            outside = _few(chain(outside, (part for box in inside for part in box._exclude(side))))
            if number < len(other.sides):
                inside = _few(part for box in inside for part in box._narrow(side))
        return outside

    def _parts(self, column: str) -> tuple[Extent, ...]:
        own = self.extent(column)
        return everything() if own is None else (own,)

    def _with(self, column: str, extent: Extent) -> "Box":
        return Box.of(*(side for side in self.sides if side.column != column), Side(column, extent))

    def _narrow(self, by: Side) -> tuple["Box", ...]:
        if self.extent(by.column) is None:
            return (self._with(by.column, by.extent),)
        return tuple(
            self._with(by.column, piece) for part in self._parts(by.column) for piece in intersect(part, by.extent)
        )

    def _exclude(self, by: Side) -> tuple["Box", ...]:
        return tuple(
            self._with(by.column, piece) for part in self._parts(by.column) for piece in subtract(part, by.extent)
        )

    def __str__(self) -> str:
        words = (
            f"{side.column} is null" if isinstance(side.extent, Missing) else f"{side.column} in {side.extent}"
            for side in self.sides
        )
        return " and ".join(words) or "everything"


def _swept(boxes: tuple[Box, ...], cuts: tuple[Box, ...]) -> tuple[Box, ...]:
    """What lies in the boxes and in none of the cuts, by a sweep along the column that most cuts constrain.

    Cuts come in the order of where they begin. A piece that ends before that is done with, a box that begins after the
    end of a cut has its turn later: in one column each is compared with its neighbours alone.
    """
    constrained = Counter(column for cut in cuts for column in cut.columns)
    column = min(constrained, key=lambda name: (-constrained[name], name)) if constrained else ""
    later = sorted(((*hull(box.extent(column)), nth) for nth, box in enumerate(boxes)), reverse=True)
    now: list[tuple[Place, Box]] = []
    done: list[Box] = []
    compared = 0
    for low, high, nth in sorted((*hull(cut.extent(column)), nth) for nth, cut in enumerate(cuts)):
        while later and later[-1][0] <= high:
            _, end, number = later.pop()
            now.append((end, boxes[number]))
        compared += len(now)
        if compared > MOST_COMPARED:
            raise AlgebraError(
                f"{len(boxes)} boxes without {len(cuts)} others take too long to be worked out; "
                f"split the condition into several queries"
            )
        left: list[tuple[Place, Box]] = []
        for end, box in now:
            if end < low:
                done.append(box)
            elif box.meets(cuts[nth]):
                left += ((hull(part.extent(column))[1], part) for part in box.subtract(cuts[nth]))
            else:
                left.append((end, box))
        now = left
        if len(done) + len(now) + len(later) > MOST_BOXES:
            break
    return _few(chain(done, (box for _, box in now), (boxes[number] for _, _, number in reversed(later))))


def _few(boxes: Iterable[Box]) -> tuple[Box, ...]:
    """These boxes as a tuple; an error beyond `MOST_BOXES`, without building the rest."""
    found = tuple(islice(boxes, MOST_BOXES + 1))
    if len(found) > MOST_BOXES:
        raise AlgebraError(
            f"the condition falls apart into more than the {MOST_BOXES} boxes allowed; split it into several queries"
        )
    return found


@dataclass(frozen=True, slots=True)
class Region:
    """A union of pairwise disjoint boxes. `Region(())` is nothing, `EVERYTHING` everything."""

    boxes: tuple[Box, ...]

    def __post_init__(self) -> None:
        if len(self.boxes) > MOST_BOXES:
            raise AlgebraError(
                f"the condition falls apart into {len(self.boxes)} boxes, more than the {MOST_BOXES} allowed; "
                f"split it into several queries"
            )

    @classmethod
    def of(cls, boxes: Iterable[Box]) -> "Region":
        """Make a region from boxes that may overlap."""
        region = cls(())
        for box in boxes:
            region = region.union(cls((box,)))
        return region

    @property
    def empty(self) -> bool:
        """Whether nothing lies in it."""
        return not self.boxes

    @property
    def weight(self) -> int:
        """Size for limits on work: its boxes, their sides and every value of a category."""
        return sum(box.weight for box in self.boxes)

    def __iter__(self) -> Iterator[Box]:
        return iter(self.boxes)

    def contains(self, value_of: ValueOf) -> bool:
        """Whether the row whose column values `value_of` looks up lies in the region."""
        for box in self.boxes:  # noqa: SIM110
            if box.contains(value_of):
                return True
        return False

    def intersect(self, other: "Region") -> "Region":
        """What lies in both."""
        return Region(_few(part for a in self.boxes for b in other.boxes for part in a.intersect(b)))

    def subtract(self, other: "Region") -> "Region":
        """What lies in this region and not in the other."""
        cuts = other.boxes
        if len(self.boxes) == 1:
            cuts = tuple(b for b in cuts if self.boxes[0].meets(b))
        if len(cuts) > _PLAIN:
            return Region(_swept(self.boxes, cuts))
        rest = self.boxes
        for b in cuts:
            rest = _few(part for a in rest for part in a.subtract(b))
        return Region(rest)

    def union(self, other: "Region") -> "Region":
        """What lies in either."""
        return Region((*self.boxes, *other.subtract(self).boxes))

    def complement(self) -> "Region":
        """What does not lie in it, rows with nulls included."""
        return EVERYTHING.subtract(self)

    def covers(self, other: "Region") -> bool:
        """Whether the other region lies in this one."""
        return other.subtract(self).empty

    def equals(self, other: "Region") -> bool:
        """Whether both hold the same rows, however they are cut into boxes."""
        return self.covers(other) and other.covers(self)

    def _check(self) -> None:
        """Assert the invariant: no two boxes share a row."""
        for i, a in enumerate(self.boxes):
            for b in self.boxes[i + 1 :]:
                assert not a.intersect(b), f"boxes overlap: {a} / {b}"

    def __str__(self) -> str:
        return " or ".join(f"({box})" for box in self.boxes) or "nothing"


EVERYTHING = Region((Box(),))
NOTHING = Region(())
