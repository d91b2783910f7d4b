"""Band-join kernel of `band_data_outer`: rows as the outer loop."""

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled
from slackwater.kernels.sorted_blocks import Packed

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@compiled
def probe_each_row(
    partners: Packed,
    flip: bool,
    join: Floats,
    by: Integers,
    ranges: Packed,
    stamps: Integers,
    cursor: Integers,
    offsets: Integers,
    lengths: Integers,
    out: Integers,
) -> None:
    """BJ-DOuter: with each row across ask for its difference in an index by left end that carries the right one."""
    used = cursor[1]
    for k in range(cursor[0], len(by)):
        own, begin = join[by[k]], used
        for at in range(partners.meta[0]):
            partner_block = partners.order[at]
            for i in range(partners.sizes[partner_block]):
                value = partners.first[partner_block, i]
                difference = own - value if flip else value - own
                for place in range(ranges.meta[0]):
                    if ranges.keys_first[place] > difference:
                        break
                    block = ranges.order[place]
                    if ranges.tops[block, 0] < difference:
                        continue
                    for j in range(ranges.sizes[block]):
                        if ranges.first[block, j] > difference:
                            break
                        slot = ranges.slots[block, j]
                        if ranges.carried[block, 0, j] >= difference and stamps[slot] != k + 1:
                            if used == len(out):
                                # What this row has stamped must be found again.
                                stamps[:] = 0
                                cursor[0], cursor[1] = k, begin
                                return
                            stamps[slot] = k + 1
                            out[used] = slot
                            used += 1
        offsets[by[k]], lengths[by[k]] = begin, used - begin
    cursor[0], cursor[1] = len(by), used
