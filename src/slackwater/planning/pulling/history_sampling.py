"""Conditional simulation: tick-by-tick draws of items' recent past, to try a query on before it runs.

What was pulled is known at the pulls and not between them; between two pulls a draw of the bridge that the item's model
gives (`kernels.bridge_sampling`) stands in. Straight lines would be too quiet. An item that was pulled too little is
imagined from its statistics: a draw of the process that suits them best. Without statistics
either there is no forecast, and `unknown` gives the reason.

The scheduler that is tried has to learn, and to find its prices, before it counts. So the past is run through several
times, the shorter the more often: forwards and backwards in turn, each time with another draw; where there is a
slope, forwards and onwards, so that a rise stays a rise. Only the second half of the times counts.

Items keep their common ticks where they have enough of them, so that those which move together still do.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slackwater.kernels import bridge_sampling
from slackwater.kernels.pull_models import slope
from slackwater.planning.pulling.item_model import HALF, ItemModel
from slackwater.planning.pulling.item_prior import ItemPrior
from slackwater.planning.pulling.model_constants import LEAST_SPREAD, STAYING

Floats = npt.NDArray[np.float64]

ENOUGH_PULLS, ENOUGH_TICKS = 20, 120
BETTER_TICKS = 600
"""Pulls over fewer ticks than these are worth less than statistics."""
MOST_TICKS, MOST_VALUES = 1_200, 24_000
"""So many ticks of one item, and so many of all together, if that leaves enough."""


@dataclass(frozen=True, slots=True)
class Motion:
    """How an item moves: see `item_model`. The line stands at `level` when it was last pulled."""

    staying: float
    variance: float
    level: float
    slope: float
    loading: float = 0.0
    """How much of its steps is common to all items."""

    @classmethod
    def of_model(cls, model: ItemModel) -> "Motion":
        """By the model that fits what pulls found best."""
        top = model.score.index(max(model.score))
        rise = float(slope(np.array(model.sums), LEAST_SPREAD)) if top >= HALF else 0.0
        level = model.sums[3] / model.sums[0] - rise * model.sums[1] / model.sums[0]
        return cls(float(STAYING[top % HALF]), max(model.scale[top], 0.0), level, rise)

    @classmethod
    def of_prior(cls, prior: ItemPrior) -> "Motion":
        """By the model that fits the statistics best."""
        sloped = prior.drift != 0.0
        staying = max((float(each) for each in STAYING), key=lambda each: prior.likelihood(each, sloped))
        return cls(staying, prior.variance(staying, sloped), prior.level, prior.drift, prior.loading or 0.0)


@dataclass(frozen=True, slots=True)
class ItemHistory:
    """What is known of an item: its last pulls as (tick, value), and how it moves, by them and by statistics."""

    name: str
    pulls: Sequence[tuple[int, float]]
    learnt: Motion | None = None
    prior: Motion | None = None

    @property
    def has_pulls(self) -> bool:
        """True when the pulls suffice and are worth more than the statistics."""
        ticks = ENOUGH_TICKS if self.prior is None else BETTER_TICKS
        return self.learnt is not None and len(self.pulls) >= ENOUGH_PULLS and self.span >= ticks

    @property
    def span(self) -> int:
        """Ticks from the first pull to the last."""
        return self.pulls[-1][0] - self.pulls[0][0] if self.pulls else 0


@dataclass(frozen=True, eq=False)
class Past:
    """Values of the items, one column each; ticks count from `warm` on."""

    trace: Floats
    warm: int
    known: int
    """How many ticks long the past is that was run through."""
    pulled: int
    """Items whose pulls are in it; the others are by their statistics."""

    @property
    def ticks(self) -> int:
        """The ticks that count."""
        return len(self.trace) - self.warm


def unknown(memories: Sequence[ItemHistory]) -> str | None:
    """Reason why there is no past to sample yet; None where there is one."""
    wanting = [each for each in memories if not each.has_pulls and each.prior is None]
    if not wanting:
        return None
    one = wanting[0]
    more = f" and {len(wanting) - 1} more like it" if len(wanting) > 1 else ""
    return (
        f"{one.name} was pulled {len(one.pulls)} times over {one.span} ticks{more}; {ENOUGH_PULLS} times over "
        f"{ENOUGH_TICKS} are needed, or statistics to begin with"
    )


def past_of(memories: Sequence[ItemHistory], random: np.random.Generator) -> Past:
    """Make a past of items that enough is known of."""
    pulled = [each for each in memories if each.has_pulls]
    longest = max(min(MOST_TICKS, MOST_VALUES // len(memories)), ENOUGH_TICKS)
    length = longest
    # Columns of items that share enough ticks end together; else each ends with its own last pull.
    ends = {each.name: each.pulls[-1][0] for each in pulled}
    if pulled:
        end = min(ends.values())
        shared = end - max(each.pulls[0][0] for each in pulled)
        if shared >= ENOUGH_TICKS:
            length, ends = min(length, shared), dict.fromkeys(ends, end)
        else:
            length = min(length, *(each.span for each in pulled))
    half = max(longest // length, 1)
    common = random.standard_normal(2 * half * length + 1)
    columns = []
    for each in memories:
        motion = each.learnt if each.has_pulls else each.prior
        assert motion is not None
        if each.has_pulls:
            draws = [_bridged(each, motion, ends[each.name], length, random) for _ in range(2 * half)]
            columns.append(_joined(draws, onwards=motion.slope != 0.0))
        else:
            columns.append(_drawn(motion, common, random))
    return Past(np.ascontiguousarray(np.column_stack(columns)), half * length, length, len(pulled))


def _joined(draws: Sequence[Floats], *, onwards: bool) -> Floats:
    """Draws of one past, one after the other. Where they meet they differ by what a draw may be off there, no more."""
    pieces = [draws[0][:1]]
    for place, draw in enumerate(draws):
        if onwards:
            pieces.append(draw[1:] - draw[0] + pieces[-1][-1])
        else:
            pieces.append(draw[::-1][1:] if place % 2 else draw[1:])
    return np.concatenate(pieces)


def _bridged(memory: ItemHistory, motion: Motion, end: int, length: int, random: np.random.Generator) -> Floats:
    """The ticks from `end` − `length` to `end`."""
    ticks = np.array([tick for tick, _ in memory.pulls], np.int64)
    values = np.array([value for _, value in memory.pulls])
    filled = np.empty(memory.span + 1)
    bridge_sampling.bridge(
        *(ticks, values, motion.staying, motion.variance, motion.level, motion.slope),
        *(random.standard_normal(len(filled)), filled),
    )
    place = end - int(ticks[0])
    return filled[place - length : place + 1]


def _drawn(motion: Motion, common: Floats, random: np.random.Generator) -> Floats:
    """A draw of the process, from its line on; part of each step is the one that is common to all."""
    own = random.standard_normal(len(common))
    steps = np.sqrt(motion.variance) * (motion.loading * common + np.sqrt(1.0 - motion.loading**2) * own)
    off, offs = 0.0, np.empty(len(common))
    for place, step in enumerate(steps.tolist()):
        off = motion.staying * off + step
        offs[place] = off
    return motion.level + motion.slope * np.arange(len(common), dtype=np.float64) + offs
