"""Quarantine reasons: the codes of refused rows."""

from enum import StrEnum


class Reason(StrEnum):
    """Short codes kept with every quarantined row; sources add theirs for rows that never became columns."""

    MISSING_KEY = "missing-key"
    MISSING_VALUE = "missing-value"
    MISSING_TIME = "missing-time"
    WRONG_TYPE = "wrong-type"
    WRONG_ENCODING = "wrong-encoding"
    NOT_FINITE = "not-finite"
    NAIVE_TIME = "naive-time"
    ABSURD_TIME = "absurd-time"
    TIME_AHEAD = "time-ahead"
    HUGE_FIELD = "huge-field"
    BAD_SEQUENCE = "bad-sequence"
    OUTSIDE_WINDOW = "outside-window"
    BAD_OPERATION = "bad-operation"
