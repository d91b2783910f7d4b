"""Extent: the values that one column may have: a range, a set of categories, or null.

Design
    Three kinds of *extent*, together able to describe every condition on one column, and closed under
    intersection and difference (each of which yields a tuple of disjoint extents):

    - `Interval`: an ordered range, each end open, closed or absent. Equality is the degenerate closed range.
    - `Categories`: a finite set of values, or all values but those. No order is assumed, so nothing ever
      widens it to a hull.
    - `Missing`: the column is null. A null lies in no interval and in no set of categories, as in SQL, where
      a comparison with null is never true; that is why the difference `anything − interval` has to contain it.

    A column that a box does not mention may be anything, null included (`everything()` lists the parts).

Mixed kinds meet on text columns (`name < 'M' AND name <> 'Bob'`): a finite set is filtered by an interval, a
cofinite one cuts the interval into pieces at the excluded points.
"""

from dataclasses import dataclass
from typing import TypeAlias

from slackwater.core.errors import AlgebraError
from slackwater.core.types import Scalar

_ORDERED = (float, int, str)


def _comparable(a: Scalar, b: Scalar) -> bool:
    if type(a) is type(b) and type(a) in _ORDERED:  # so it nearly always is, and it is asked for every row
        return True
    numbers = (int, float)
    if isinstance(a, bool) or isinstance(b, bool):
        return False
    return (isinstance(a, numbers) and isinstance(b, numbers)) or (isinstance(a, str) and isinstance(b, str))


def _less(a: Scalar, b: Scalar) -> bool:
    """`a < b` for values of one kind; an error that says so for others."""
    if not _comparable(a, b):
        raise AlgebraError(f"{a!r} and {b!r} cannot be put in order")
    return a < b  # type: ignore[operator]  # both numbers or both text, as just checked


@dataclass(frozen=True, slots=True)
class Interval:
    """An ordered range; an end that is None is unbounded.

    >>> Interval(5000, 9000, low_open=True).contains(5000)
    False
    """

    low: Scalar | None = None
    high: Scalar | None = None
    low_open: bool = False
    high_open: bool = False

    def __post_init__(self) -> None:
        if (self.low is None and self.low_open) or (self.high is None and self.high_open):
            # One way only to write an unbounded end, so that equal sets are equal values.
            object.__setattr__(self, "low_open", self.low_open and self.low is not None)
            object.__setattr__(self, "high_open", self.high_open and self.high is not None)
        for end in (self.low, self.high):
            if isinstance(end, bool):
                raise AlgebraError(f"{end} has no order: use categories for BOOLEAN")
            if isinstance(end, float) and end != end:
                raise AlgebraError("NaN cannot be the end of an interval")
        if self.low is not None and self.high is not None:
            _less(self.low, self.high)  # refuse a mixture of text and numbers here, not later

    @property
    def empty(self) -> bool:
        """Whether nothing lies in it."""
        if self.low is None or self.high is None:
            return False
        return _less(self.high, self.low) or (self.low == self.high and (self.low_open or self.high_open))

    @property
    def unbounded(self) -> bool:
        """Whether every value (but not null) lies in it."""
        return self.low is None and self.high is None

    def contains(self, value: Scalar | None) -> bool:
        """Whether the value lies in it."""
        if value is None:
            return False
        low, high = self.low, self.high
        if low is not None and not _less(low, value) and (self.low_open or value != low):
            # The other end is of the same kind as this one, so that what has no order was refused above.
            return False
        return high is None or _less(value, high) or (not self.high_open and value == high)

    def meet(self, other: "Interval") -> "Interval":
        """What lies in both; it may be empty."""
        low, low_open = self.low, self.low_open
        if other.low is not None and (low is None or _less(low, other.low)):
            low, low_open = other.low, other.low_open
        elif other.low is not None and low == other.low:
            low_open = low_open or other.low_open
        high, high_open = self.high, self.high_open
        if other.high is not None and (high is None or _less(other.high, high)):
            high, high_open = other.high, other.high_open
        elif other.high is not None and high == other.high:
            high_open = high_open or other.high_open
        return Interval(low, high, low_open, high_open)

    def _outside(self) -> tuple["Interval", ...]:
        """The one or two intervals beside this one."""
        beside = []
        if self.low is not None:
            beside.append(Interval(None, self.low, high_open=not self.low_open))
        if self.high is not None:
            beside.append(Interval(self.high, None, low_open=not self.high_open))
        return tuple(beside)

    def _without(self, points: frozenset[Scalar]) -> tuple["Interval", ...]:
        """This interval cut into pieces at the points that fall into it."""
        pieces: list[Interval] = []
        rest = self
        for point in sorted((p for p in points if self.contains(p)), key=order_of):
            before = Interval(rest.low, point, rest.low_open, high_open=True)
            if not before.empty:
                pieces.append(before)
            rest = Interval(point, rest.high, low_open=True, high_open=rest.high_open)
        if not rest.empty:
            pieces.append(rest)
        return tuple(pieces)

    def __str__(self) -> str:
        left = "(" if self.low_open or self.low is None else "["
        right = ")" if self.high_open or self.high is None else "]"
        low = "-∞" if self.low is None else repr(self.low)
        high = "∞" if self.high is None else repr(self.high)
        return f"{left}{low}, {high}{right}"


def order_of(value: Scalar) -> tuple[bool, float, str]:
    """A sort key for values of one kind (mixtures never share an interval)."""
    return (False, 0.0, value) if isinstance(value, str) else (True, value, "")


@dataclass(frozen=True, slots=True)
class Categories:
    """A finite set of values, or with `complement` every value but those (null in neither).

    >>> Categories(frozenset({"red"}), complement=True).contains("blue")
    True
    """

    values: frozenset[Scalar]
    complement: bool = False

    @property
    def empty(self) -> bool:
        """Whether nothing lies in it."""
        return not self.values and not self.complement

    def contains(self, value: Scalar | None) -> bool:
        """Whether the value lies in it."""
        return value is not None and (value in self.values) != self.complement

    def __str__(self) -> str:
        inside = ", ".join(repr(value) for value in sorted(self.values, key=order_of))
        return f"not {{{inside}}}" if self.complement else f"{{{inside}}}"


@dataclass(frozen=True, slots=True)
class Missing:
    """The column is null."""

    empty = False

    def contains(self, value: Scalar | None) -> bool:
        """Whether the value is null."""
        return value is None

    def __str__(self) -> str:
        return "null"


Extent: TypeAlias = Interval | Categories | Missing

_ANY_VALUE = Interval()


def everything() -> tuple[Extent, ...]:
    """The parts of a column that may be anything: every value, and null."""
    return (_ANY_VALUE, Missing())


def intersect(a: Extent, b: Extent) -> tuple[Extent, ...]:
    """What lies in both, as disjoint, non-empty extents."""
    match a, b:
        case Missing(), Missing():
            return (a,)
        case (Missing(), _) | (_, Missing()):
            return ()
        case Interval(), Interval():
            return _solid(a.meet(b))
        case Interval(), Categories(complement=False):
            return _solid(Categories(frozenset(value for value in b.values if a.contains(value))))
        case Interval(), Categories():
            # An interval without ends is also right for values that have no order: keep the categories.
            return (b,) if a.unbounded else a._without(b.values)
        case Categories(), Interval():
            return intersect(b, a)
        case Categories(), Categories():
            return _solid(_meet_categories(a, b))
    raise AssertionError("unreachable")


def meets(a: Extent, b: Extent) -> bool:
    """True if two non-empty extents overlap; cheaper than `intersect`, as it builds nothing."""
    if isinstance(a, Interval):
        if isinstance(b, Interval):
            return not (_below(a, b) or _below(b, a))
        if isinstance(b, Categories) and b.complement:
            # A range holds more than a finite set of values, unless it is one value.
            return a.low is None or a.low != a.high or a.low not in b.values
    elif isinstance(a, Categories) and a.complement and isinstance(b, Interval):
        return meets(b, a)
    return bool(intersect(a, b))


def _below(a: Interval, b: Interval) -> bool:
    """Whether all of an interval lies below all of another."""
    if a.high is None or b.low is None:
        return False
    return _less(a.high, b.low) or (a.high == b.low and (a.high_open or b.low_open))


Place: TypeAlias = tuple[object, ...]
"""Sort key of a column's values and nulls."""
_LOWEST: Place = ()
_HIGHEST: Place = (2,)
_NULL: Place = (3,)
_BEYOND: Place = (4,)
"""Places of values begin with a boolean; these stand before and after all of them."""


def place_of(value: Scalar | None) -> Place:
    """Sort key of a value, or of null, among the ends of hulls."""
    return _NULL if value is None else order_of(value)


def hull(extent: Extent | None) -> tuple[Place, Place]:
    """Smallest and largest place of an extent, nulls after all values; None where the column may be anything."""
    match extent:
        case None:
            return _LOWEST, _BEYOND
        case Missing():
            return _NULL, _NULL
        case Interval(low, high):
            return _LOWEST if low is None else order_of(low), _HIGHEST if high is None else order_of(high)
        case Categories(values, complement):
            if complement:
                return _LOWEST, _HIGHEST
            places = [order_of(value) for value in values]
            return min(places), max(places)


def subtract(a: Extent, b: Extent) -> tuple[Extent, ...]:
    """What lies in `a` and not in `b`, as disjoint, non-empty extents."""
    if b.empty:
        return _solid(a)
    match a, b:
        case Missing(), Missing():
            return ()
        case (Missing(), _) | (_, Missing()):
            return _solid(a)
        case Interval(), Interval():
            return tuple(piece for side in b._outside() for piece in _solid(a.meet(side)))
        case Interval(), Categories():
            return intersect(a, Categories(b.values, not b.complement))
        case Categories(complement=False), Interval():
            return _solid(Categories(frozenset(value for value in a.values if not b.contains(value))))
        case Categories(), Interval():
            return tuple(piece for side in b._outside() for piece in side._without(a.values))
        case Categories(), Categories():
            return _solid(_meet_categories(a, Categories(b.values, not b.complement)))
    raise AssertionError("unreachable")


def _meet_categories(a: Categories, b: Categories) -> Categories:
    if a.complement and b.complement:
        return Categories(a.values | b.values, complement=True)
    if a.complement:
        return Categories(b.values - a.values)
    if b.complement:
        return Categories(a.values - b.values)
    return Categories(a.values & b.values)


def _solid(extent: Extent) -> tuple[Extent, ...]:
    return () if extent.empty else (extent,)
