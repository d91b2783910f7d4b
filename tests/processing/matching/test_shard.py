import numpy as np

from slackwater.processing.matching import BAND, SELECT, JoinRows, JoinSide, band_joins, select_joins
from slackwater.processing.matching.shard import cuts_of
from tests.support.sharded_matcher import Sharded


def test_skew_is_spread() -> None:
    """However many of the left rows have one value, no shard owns more than twice its share."""
    rng = np.random.default_rng(1)
    for share in (0.0, 0.1, 0.2, 0.5, 0.9, 1.0):
        join = np.where(rng.random(4000) < share, 7.0, rng.uniform(0, 100, 4000))
        cuts = cuts_of(join, 8)
        owned = np.bincount(cuts.owners(join, np.arange(4000)), minlength=8)
        assert cuts.shards == 8
        assert owned.max() <= 2 * 4000 / 8


def test_a_wider_query_brings_the_rows_it_needs() -> None:
    sharded = Sharded(BAND, cuts_of(np.array([10.0, 20.0]), 2))
    sharded.insert(JoinSide.LEFT, JoinRows(np.array([1]), np.array([9.0]), np.zeros((1, 0))))
    sharded.insert(JoinSide.RIGHT, JoinRows(np.array([1]), np.array([14.0]), np.zeros((1, 0))))
    sharded.add(band_joins(np.array([1]), np.array([-1.0]), np.array([1.0])))
    asked = JoinRows(np.array([2]), np.array([9.0]), np.zeros((1, 0)))
    assert sharded.match(JoinSide.LEFT, asked).queries.tolist() == []
    sharded.add(band_joins(np.array([2]), np.array([4.0]), np.array([6.0])))
    assert sharded.match(JoinSide.LEFT, asked).queries.tolist() == [2]
    sharded._check()


def test_one_hot_key_is_shared_by_shards() -> None:
    left = JoinRows(np.arange(600), np.full(600, 3.0), np.zeros((600, 1)))
    sharded = Sharded(SELECT, cuts_of(left.join, 4))
    one = np.array([0.0])
    sharded.add(select_joins(np.array([5]), one - 1, one + 1, one - 1, one + 1))
    sharded.insert(JoinSide.LEFT, left)
    arriving = JoinRows(np.array([9]), np.array([3.0]), np.zeros((1, 1)))
    found = sharded.results(JoinSide.RIGHT, arriving)
    assert found.partners.tolist() == list(range(600))
    assert sharded.match(JoinSide.RIGHT, arriving).queries.tolist() == [5]
    owned = np.bincount(sharded.cuts.owners(left.join, left.ids))
    assert owned.max() <= 200
