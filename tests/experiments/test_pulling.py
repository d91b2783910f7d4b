"""Fidelity on recorded traces, on the halves that constants were chosen by and on those held out."""

from pathlib import Path

import numpy as np
import pytest

from experiments.pulling import measures
from experiments.pulling.traces import MADE, REAL, trace
from experiments.pulling.workload import bounded
from slackwater.planning.pulling import run_uncertainty
from slackwater.planning.pulling.simulation import Floats

FOLDER = Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.shared_data
@pytest.mark.skipif(not FOLDER.exists(), reason="the folder of traces is not beside the checkout")
@pytest.mark.parametrize("held_out", [False, True], ids=["tuning", "held out"])
@pytest.mark.parametrize("name", REAL)
def test_recorded_traces_keep_their_fidelity(name: str, held_out: bool) -> None:
    _keeps(trace(name, FOLDER, held_out=held_out))


@pytest.mark.parametrize("name", MADE)
def test_made_traces_keep_their_fidelity(name: str) -> None:
    _keeps(trace(name, Path(), held_out=True))


def _keeps(values: Floats) -> None:
    found = run_uncertainty(bounded(measures.drawn(values, 60), values, 2.0, 0.98), values, measures.WARM)
    assert float(found.fidelity.mean()) >= 0.98 - 0.005
    assert float(np.percentile(found.fidelity, 5)) >= 0.98 - 0.02
