"""Hash partitioning: keys as points between 0 and 1, so that keys, too, are cut into ranges.

Places are the same in every process and on every machine, and equal for values that are equal. Two keys at one place do
no harm: they are kept together.
"""

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from slackwater.processing.base import Floats

Words = npt.NDArray[np.uint64]

_MASK = 2**64 - 1


def scattered(seeds: Words) -> Floats:
    """Numbers from 0 to 1 that look like chance (the finisher of SplitMix64).

    >>> scattered(np.arange(4, dtype=np.uint64)).round(3).tolist()
    [0.883, 0.567, 0.591, 0.113]
    """
    with np.errstate(over="ignore"):
        mixed = seeds + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    places: Floats = (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return places


def seed_of(value: object) -> int:
    """A word for a value. Texts are not hashed by Python, which does it differently in every process.

    >>> seed_of(3) == seed_of(3.0), seed_of("3") == seed_of(3)
    (True, False)
    """
    if isinstance(value, str):
        return int.from_bytes(blake2b(value.encode(), digest_size=8).digest(), "little")
    return hash(value) & _MASK
