"""Keys of several columns as bytes: part behind part, each text behind its length, so that different keys differ.

Columns have the layout of Arrow's texts: part k is data[offsets[k]:offsets[k + 1]]. `written_plainly` is the twin of
`append_part`.
"""

import numpy as np

from slackwater.kernels.jit import compiled
from slackwater.kernels.key_table import Integers, Letters, Offsets

LENGTH = 4
"""Bytes of the length in front of a text."""
_WORD = 8


@compiled
def append_part(
    offsets: Offsets,
    data: Letters,
    more_offsets: Offsets,
    more: Letters,
    is_text: bool,
    longer_offsets: Offsets,
    longer: Letters,
) -> None:
    """Write the keys so far with one more part behind each."""
    top = 0
    for k in range(len(offsets) - 1):
        longer_offsets[k] = top
        for at in range(offsets[k], offsets[k + 1]):
            longer[top] = data[at]
            top += 1
        if is_text:
            length = more_offsets[k + 1] - more_offsets[k]
            for byte in range(LENGTH):
                longer[top] = (length >> (8 * byte)) & 0xFF
                top += 1
        for at in range(more_offsets[k], more_offsets[k + 1]):
            longer[top] = more[at]
            top += 1
    longer_offsets[len(offsets) - 1] = top


@compiled
def begin_part(letters: Letters, is_text: bool, begins: Integers, ends: Integers) -> None:
    """Set `begins` and `ends` to the bytes of the part that stands at `begins`."""
    for k in range(len(begins)):
        length = _WORD
        if is_text:
            length = 0
            for byte in range(LENGTH):
                length |= int(np.int64(letters[begins[k] + byte])) << (8 * byte)
            begins[k] += LENGTH
        ends[k] = begins[k] + length


@compiled
def copy_ranges(letters: Letters, begins: Integers, ends: Integers, offsets: Offsets, data: Letters) -> None:
    """Copy ranges of bytes side by side; `data` has room for them."""
    top = 0
    for k in range(len(begins)):
        offsets[k] = top
        for at in range(begins[k], ends[k]):
            data[top] = letters[at]
            top += 1
    offsets[len(begins)] = top


def written_plainly(parts: tuple[int | str, ...]) -> bytes:
    """A key as bytes.

    >>> written_plainly((1, "ab"))
    b'\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\x00\\x00ab'
    """
    written = b""
    for part in parts:
        text = part.to_bytes(_WORD, "little", signed=True) if isinstance(part, int) else part.encode()
        written += text if isinstance(part, int) else len(text).to_bytes(LENGTH, "little") + text
    return written
