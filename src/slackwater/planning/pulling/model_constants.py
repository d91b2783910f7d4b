"""Constants of the uncertainty scheduler; its kernels take them as one argument.

They were chosen by trial on one half of the items of ten traces, five recorded and five generated, and measured on the
other half (`docs/pulling.md`).
No experiment varies them one by one: what stands below each says what it does and what it is meant for.
"""

import numpy as np

from slackwater.kernels.pull_tables import PullConstants

STAYING = np.array([1.0, 0.99, 0.95, 0.85, 0.6, 0.0])
"""How much of a distance from the line stays after a tick, from a walk to noise; half of the models have a slope."""
RATE = 0.02
"""A variance follows the squares of about the last 50 pulls."""
DISCOUNT = 0.99
"""Findings count for about 100 pulls, so that the bank can change its model when the item does."""
WORST = 8.0
"""A square counts at most as one of 4 deviations: so that no single jump decides between models."""
HALF_LIFE = 400.0
"""Ticks after which a value counts half for the line."""
LEAST_SPREAD = 100.0
"""The slope is 0 until the ticks of the values have a variance of so much, a deviation of 10 ticks."""
LEARNING_PULLS = 20
"""Pulls by which an item is learnt: each distance of a cycle four times."""
LEARNING_CYCLE = 5
"""Distances 1, 2, 4, 8 and 16 ticks: from afar alone nothing shows of how an item moves in between."""
DEGREES = 8.0
"""ν of the clock: a pull that found z² multiplies the paces it looks back on by (8 + z²)/9, at least 8/9."""
RETURN = 0.9
"""A pace returns to the usual one by a tenth a tick: what is left of a burst fades over about ten ticks."""
CLOCK_DISCOUNT = 0.995
"""The clock is judged by about 200 pulls of all items together."""
CLOCK_WORST = 20.0
"""Half a square counts at most so much for or against the clock."""
MOST_STEP = 30.0
"""Largest factor by which a pull may speed it up, reached at z² = 262."""
LEAST_PACE = 0.02
"""A tick counts at least a fiftieth: variances go on growing in quiet times."""
MOST_PACE = 400.0
"""And for at most 400: paces cannot grow without end."""
CALIBRATION = 0.02
"""Calibration follows about 50 pulls of a class of lengths."""
MOST_SQUARE = 16.0
"""A square of more than 4 deviations counts as one of 4 in calibration."""
TRUSTED = 4
"""Pulls of an item after which its best model is used to judge clock and surprise; before, its scale is a guess."""
FIRST_PRICE = 0.05
"""First guess of a price times the share of ticks allowed, in pulls; feedback and a past (`first_price`) correct it."""
SETTLING = 100
"""First ticks, which move no prices: the items are still being learnt."""
HORIZON = 250.0
"""Ticks over which what was overspent is to be saved again."""
FADING = 0.999
"""Violations are remembered for about 1 000 ticks."""
RISING_TIME = 100.0
"""Ticks in which the common price rises by e for an error of 1."""
FALLING_TIME = 200.0
"""Half as fast downwards: a broken bound is held to be worse than a pull too many."""
RECENT = 100.0
"""Recent violations are those of about so many judged ticks."""
EASE = 0.25
"""Added above and below the ratio, whose logarithm so exists without violations too."""
LARGEST_ERROR = 1.5
"""Error of the feedback at most: no tick moves the common price by more than a factor of e^0.015."""
LOWEST_COMMON = -12.0
"""The common price stays above e⁻¹² of the guess, from where it is back after 800 ticks at the fastest."""
HIGHEST_COMMON = 8.0
"""And below e⁸ of it."""
OWN_STEP = 0.1
"""Step of the ascent on a query's own multiplier: ten ticks owed are one e."""
OWN_REACH = 14.0
"""Bound of that multiplier, so that it comes back from saturation."""
UNLIKELY = 0.001
"""Models of less than a thousandth of the best likelihood are left out."""
FIRST_LOADING = 0.3
"""Items begin as slightly related: from 0 on both sides loadings would never move."""
LOADING_STEP = 0.01
"""Step towards what a comparison found: loadings follow some hundred comparisons or more."""
LARGEST_LOADING = 0.95
"""Nothing is common alone: covariances stay positive definite."""
LEAST_OVERLAP = 0.3
"""Intervals that overlap less are not compared."""
LARGEST_SURPRISE = 3.0
"""A surprise of more deviations counts as one of 3 in a product of two."""
FIRST_WILD = 0.02
"""Two in a hundred errors are taken to be wild until pulls tell otherwise."""
WILD_STEP = 0.005
"""ε follows about 200 pulls."""
LEAST_WILD = 0.0001
"""Wild errors are never ruled out."""
MOST_WILD = 0.3
"""And never taken for more than three in ten."""

CONSTANTS = PullConstants(
    staying=STAYING,
    rate=RATE,
    discount=DISCOUNT,
    worst=WORST,
    half_life=HALF_LIFE,
    least_spread=LEAST_SPREAD,
    learning_pulls=LEARNING_PULLS,
    learning_cycle=LEARNING_CYCLE,
    degrees=DEGREES,
    returning=RETURN,
    clock_discount=CLOCK_DISCOUNT,
    clock_worst=CLOCK_WORST,
    most_step=MOST_STEP,
    least_pace=LEAST_PACE,
    most_pace=MOST_PACE,
    calibration=CALIBRATION,
    most_square=MOST_SQUARE,
    trusted=TRUSTED,
    first_price=FIRST_PRICE,
    settling=SETTLING,
    horizon=HORIZON,
    fading=FADING,
    rising_time=RISING_TIME,
    falling_time=FALLING_TIME,
    recent=RECENT,
    ease=EASE,
    largest_error=LARGEST_ERROR,
    lowest_common=LOWEST_COMMON,
    highest_common=HIGHEST_COMMON,
    own_step=OWN_STEP,
    own_reach=OWN_REACH,
    unlikely=UNLIKELY,
    first_loading=FIRST_LOADING,
    loading_step=LOADING_STEP,
    largest_loading=LARGEST_LOADING,
    least_overlap=LEAST_OVERLAP,
    largest_surprise=LARGEST_SURPRISE,
    first_wild=FIRST_WILD,
    wild_step=WILD_STEP,
    least_wild=LEAST_WILD,
    most_wild=MOST_WILD,
)
"""All of them, as the kernels take them."""
