"""Outcome of admission: what became of the rows of an arrival, or of several arrivals without a fault."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.admission.deduplication import Seen


@dataclass(frozen=True, slots=True)
class Admission:
    """Outcome of an arrival.

    `accepted` is an update batch (`core.arrow`), `quarantined` has the layout `QUARANTINE`; either may be empty.
    `seen` is the source's memory to be kept once both are safely stored. `given_up` counts sequence numbers that
    never came and will now be refused, because too many holes were open. `outside_window` counts the rows in quarantine
    that were refused so.
    """

    accepted: pa.RecordBatch
    quarantined: pa.RecordBatch
    repeats: int
    seen: Seen
    given_up: int = 0
    ignored_columns: tuple[str, ...] = ()
    outside_window: int = 0


@dataclass(frozen=True, slots=True)
class RunAdmission:
    """Outcome of arrivals one after the other, all of whose rows were accepted.

    `accepted` has the rows of all, `counts` says how many are of each, `sequences` are the numbers of all rows. `seen`
    is the memory of each source after them.
    """

    accepted: pa.RecordBatch
    counts: tuple[int, ...]
    sequences: npt.NDArray[np.int64]
    seen: dict[str, Seen]
    ignored_columns: tuple[str, ...] = ()
