"""Factor loadings from the similarities of all pairs: ρᵢⱼ ≈ βᵢ·βⱼ (see `common_factor`).

Least squares over the pairs, without the diagonal, one loading after the other for given others:

    βᵢ = Σ_{j≠i} ρᵢⱼβⱼ / Σ_{j≠i} βⱼ²

halfway at a time, from the strongest direction of ρ on. Items that share nothing end near 0. The sign of the
common movement is undetermined; most loadings are taken to be positive.
"""

import numpy as np
import numpy.typing as npt

from slackwater.planning.pulling.model_constants import LARGEST_LOADING

Floats = npt.NDArray[np.float64]

ROUNDS = 60


def loadings_of(similarity: Floats) -> list[float]:
    """β of each item.

    >>> [round(beta, 3) for beta in loadings_of(np.array([[1.0, 0.4, -0.3], [0.4, 1.0, -0.48], [-0.3, -0.48, 1.0]]))]
    [0.5, 0.8, -0.6]
    """
    pairs = similarity - np.diag(np.diagonal(similarity))
    if len(pairs) < 2 or not pairs.any():
        return [0.0] * len(pairs)
    direction = np.sqrt(np.mean(pairs**2, axis=1))
    for _ in range(ROUNDS):
        # The diagonal keeps a direction from turning back and forth.
        moved = pairs @ direction + direction
        direction = moved / np.linalg.norm(moved)
    beta = direction * np.sqrt(max(float(direction @ pairs @ direction), 0.0))
    for _ in range(ROUNDS):
        others = float(beta @ beta) - beta * beta
        wanted = np.divide(pairs @ beta, others, out=np.zeros(len(beta)), where=others > 1e-12)
        beta = np.clip(0.5 * (beta + wanted), -LARGEST_LOADING, LARGEST_LOADING)
    found: list[float] = (beta if beta.sum() >= 0.0 else -beta).tolist()
    return found
