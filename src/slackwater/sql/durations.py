"""Durations: `10 SECONDS` and its like in microseconds, and back."""

from decimal import Decimal, InvalidOperation

LONGEST = 366 * 24 * 3600 * 1_000_000
"""A year: whatever repeats more seldom than that is a mistake."""

_SECOND = 1_000_000

UNITS: dict[str, int] = {
    "MICROSECOND": 1,
    "MICROSECONDS": 1,
    "MILLISECOND": 1_000,
    "MILLISECONDS": 1_000,
    "SECOND": _SECOND,
    "SECONDS": _SECOND,
    "MINUTE": 60 * _SECOND,
    "MINUTES": 60 * _SECOND,
    "HOUR": 3600 * _SECOND,
    "HOURS": 3600 * _SECOND,
    "DAY": 86_400 * _SECOND,
    "DAYS": 86_400 * _SECOND,
}
"""How many microseconds a unit has, by its name in capitals."""


def microseconds(number: str, unit: str) -> int:
    """So many units in microseconds; a ValueError says what is wrong with them.

    >>> microseconds("1.5", "seconds")
    1500000
    """
    if unit.upper() not in UNITS:
        raise ValueError(f"{unit!r} is no unit of time; write seconds, minutes, hours, days or milliseconds")
    try:
        amount = Decimal(number)
    except InvalidOperation:
        raise ValueError(f"{number!r} is no number") from None
    if not amount.is_finite() or amount.adjusted() > 18:
        raise ValueError(f"{number} {unit} is too long; a year is the most")
    exact = amount * UNITS[unit.upper()]
    length = int(exact)
    if length != exact or length < 1:
        raise ValueError(f"{number} {unit} is no whole number of microseconds above 0")
    if length > LONGEST:
        raise ValueError(f"{number} {unit} is too long; a year is the most")
    return length


def duration(text: str) -> int:
    """Read a length of time.

    >>> duration("1 second"), duration("250 milliseconds")
    (1000000, 250000)
    """
    parts = text.split()
    if len(parts) != 2:
        raise ValueError(f"{text!r} is no length of time; write a number and a unit, such as '1 second'")
    return microseconds(parts[0], parts[1])


def write_duration(length: int) -> str:
    """Write a length of time in the largest unit that leaves a whole number.

    >>> write_duration(90_000_000), write_duration(1_000_000)
    ('90 seconds', '1 second')
    """
    size, name = max((size, unit.lower()) for unit, size in UNITS.items() if unit.endswith("S") and length % size == 0)
    count = length // size
    return f"{count} {name.removesuffix('s') if count == 1 else name}"
