"""Clairvoyant push baselines over a trace, compiled; `experiments.pulling.clairvoyant` has the plain twins."""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@compiled
def push_changed(
    trace: Floats, starts: Integers, items: Integers, weights: Floats, within: Floats, warm: int, pushes: Integers
) -> None:
    """Count, from tick `warm` on, the pushes of each item when a violated query gets all that changed."""
    held = trace[0].copy()
    for now in range(1, len(trace)):
        for q in range(len(within)):
            error = 0.0
            for k in range(starts[q], starts[q + 1]):
                error += weights[k] * (trace[now, items[k]] - held[items[k]])
            if abs(error) <= within[q]:
                continue
            for k in range(starts[q], starts[q + 1]):
                i = items[k]
                if trace[now, i] != held[i]:
                    held[i] = trace[now, i]
                    if now >= warm:
                        pushes[i] += 1


@compiled
def push_best(
    trace: Floats, starts: Integers, items: Integers, weights: Floats, within: Floats, warm: int, pushes: Integers
) -> None:
    """Count, from tick `warm` on, the pushes of each item when one best item goes at a time."""
    n, queries = trace.shape[1], len(within)
    held = trace[0].copy()
    error = np.zeros(queries)
    gain = np.zeros(n)
    for now in range(1, len(trace)):
        while True:
            violated = -1
            gain[:] = 0.0
            for q in range(queries):
                error[q] = 0.0
                for k in range(starts[q], starts[q + 1]):
                    error[q] += weights[k] * (trace[now, items[k]] - held[items[k]])
                if violated < 0 and abs(error[q]) > within[q]:
                    violated = q
            if violated < 0:
                break
            for q in range(queries):
                excess = max(abs(error[q]) - within[q], 0.0)
                for k in range(starts[q], starts[q + 1]):
                    left = error[q] - weights[k] * (trace[now, items[k]] - held[items[k]])
                    gain[items[k]] += (excess - max(abs(left) - within[q], 0.0)) / within[q]
            best = -1
            for i in range(n):
                if trace[now, i] != held[i] and gain[i] > 0.0 and (best < 0 or gain[i] > gain[best]):
                    best = i
            if best < 0:
                most = 0.0
                for k in range(starts[violated], starts[violated + 1]):
                    part = abs(weights[k] * (trace[now, items[k]] - held[items[k]]))
                    if part > most:
                        most = part
                        best = items[k]
            if best < 0:
                break
            held[best] = trace[now, best]
            if now >= warm:
                pushes[best] += 1
