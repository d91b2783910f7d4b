import numpy as np
import pytest

from slackwater.kernels.sorted_blocks import locate
from slackwater.processing.matching.order import PackedOrder


@pytest.mark.parametrize("room", [2, 4, 16])
@pytest.mark.parametrize("seed", range(3))
def test_a_packed_order_is_a_sorted_list(room: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    order, plain = PackedOrder(width=2, room=room), dict[tuple[float, float, int], tuple[float, float]]()
    for step in range(60):
        growing = step % 30 < 18
        new = {
            (float(rng.integers(5)), float(rng.integers(9)), int(rng.integers(99))): (float(a), float(b))
            for a, b in rng.integers(-9, 9, (int(rng.integers(9 if growing else 2)), 2))
        }
        new = {key: value for key, value in new.items() if key not in plain}
        old = [list(plain)[k] for k in rng.permutation(len(plain))[: int(rng.integers(3 if growing else 12))]]
        keys = np.array(list(new), float).reshape(-1, 3)
        carried = np.array(list(new.values())).reshape(-1, 2)
        order.insert(keys[:, 0], keys[:, 1], keys[:, 2].astype(np.int64), carried)
        plain.update(new)
        keys = np.array(old, float).reshape(-1, 3)
        order.delete(keys[:, 0], keys[:, 1], keys[:, 2].astype(np.int64))
        for key in old:
            del plain[key]
        order._check()
        first, second, slots, values = order.entries()
        assert list(zip(first, second, slots, strict=True)) == sorted(plain)
        assert [tuple(row) for row in values] == [plain[key] for key in sorted(plain)]
        asked = (float(rng.integers(5)), float(rng.integers(9)), int(rng.integers(99)))
        place, offset = locate(order.packed, *asked)
        blocks = order.packed.order[:place]
        assert order.packed.sizes[blocks].sum() + offset == sum(key < asked for key in plain)


def test_deleting_what_is_not_there_is_an_error() -> None:
    order = PackedOrder()
    order.build(np.array([1.0]), np.array([1.0]), np.array([1]))
    with pytest.raises(AssertionError):
        order.delete(np.array([1.0]), np.array([1.0]), np.array([2]))
