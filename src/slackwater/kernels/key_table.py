"""Keys to slots: a hash table over bytes or words, which numbers keys in the order in which they are first met.

Design
    The table is a power of two of places with linear probing, at most half of them taken. A taken place is one word:
    the upper half of the key's hash above the key's slot plus one; 0 is free. Only where those 32 bits agree is the key
    itself compared, so that equal slots mean equal keys whatever the hash does.

    The keys stand beside the table in order of their slots. Keys of bytes have the layout of an Arrow column of texts:
    `starts` and `letters`. Keys of words are one array. Nothing is ever taken out.

    Slots depend on the order of the keys alone. The hash is keyed with a secret, because keys come from strangers, and
    places in a table without a secret can be made to collide.

Mathematics
    SipHash-1-3 (J.-P. Aumasson, D. J. Bernstein: SipHash: a fast short-input PRF, INDOCRYPT 2012, §2), over words of
    eight bytes; the last word of a text has its length in the upper byte.

`numbered_plainly` is its twin over a dictionary.
"""

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from slackwater.kernels.jit import compiled

Integers = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.int32]
Letters = npt.NDArray[np.uint8]
Places = npt.NDArray[np.uint64]
Secret = npt.NDArray[np.uint64]

_LOWER = np.uint64(0xFFFFFFFF)
_UPPER = np.uint64(0xFFFFFFFF00000000)


@compiled
def _round(v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64) -> tuple[np.uint64, ...]:
    """One SipRound (fig. 2.1)."""
    v0 += v1
    v1 = (v1 << np.uint64(13)) | (v1 >> np.uint64(51))
    v1 ^= v0
    v0 = (v0 << np.uint64(32)) | (v0 >> np.uint64(32))
    v2 += v3
    v3 = (v3 << np.uint64(16)) | (v3 >> np.uint64(48))
    v3 ^= v2
    v0 += v3
    v3 = (v3 << np.uint64(21)) | (v3 >> np.uint64(43))
    v3 ^= v0
    v2 += v1
    v1 = (v1 << np.uint64(17)) | (v1 >> np.uint64(47))
    v1 ^= v2
    v2 = (v2 << np.uint64(32)) | (v2 >> np.uint64(32))
    return v0, v1, v2, v3


@compiled
def word_at(letters: Letters, at: int) -> np.uint64:
    """Eight bytes as one word; written out, it becomes one load."""
    k = np.uint64(at)
    return (
        np.uint64(letters[k])
        | (np.uint64(letters[k + np.uint64(1)]) << np.uint64(8))
        | (np.uint64(letters[k + np.uint64(2)]) << np.uint64(16))
        | (np.uint64(letters[k + np.uint64(3)]) << np.uint64(24))
        | (np.uint64(letters[k + np.uint64(4)]) << np.uint64(32))
        | (np.uint64(letters[k + np.uint64(5)]) << np.uint64(40))
        | (np.uint64(letters[k + np.uint64(6)]) << np.uint64(48))
        | (np.uint64(letters[k + np.uint64(7)]) << np.uint64(56))
    )


@compiled
def are_equal(own: Letters, at: int, other: Letters, start: int, length: int) -> bool:
    """Whether the bytes from here on are those from there on."""
    k = 0
    while k + 8 <= length:
        if word_at(own, at + k) != word_at(other, start + k):
            return False
        k += 8
    while k < length:
        if own[at + k] != other[start + k]:
            return False
        k += 1
    return True


@compiled
def hash_text(letters: Letters, start: int, end: int, secret: Secret) -> np.uint64:
    """Hash some bytes."""
    v0 = secret[0] ^ np.uint64(0x736F6D6570736575)
    v1 = secret[1] ^ np.uint64(0x646F72616E646F6D)
    v2 = secret[0] ^ np.uint64(0x6C7967656E657261)
    v3 = secret[1] ^ np.uint64(0x7465646279746573)
    at = start
    while at + 8 <= end:
        word = word_at(letters, at)
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        at += 8
    word = np.uint64(end - start) << np.uint64(56)
    shift = np.uint64(0)
    while at < end:
        word |= np.uint64(letters[at]) << shift
        shift += np.uint64(8)
        at += 1
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= np.uint64(0xFF)
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@compiled
def hash_word(word: np.uint64, secret: Secret) -> np.uint64:
    """Hash one word; all keys of a table have the same length."""
    v0 = secret[0] ^ np.uint64(0x736F6D6570736575)
    v1 = secret[1] ^ np.uint64(0x646F72616E646F6D)
    v2 = secret[0] ^ np.uint64(0x6C7967656E657261)
    v3 = secret[1] ^ np.uint64(0x7465646279746573) ^ word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= np.uint64(0xFF)
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@compiled
def number_texts(
    places: Places,
    secret: Secret,
    starts: Integers,
    letters: Letters,
    top: int,
    offsets: Offsets,
    data: Letters,
    row: int,
    adding: bool,
    slots: Integers,
) -> tuple[int, int]:
    """Write the slot of each text from `row` on; stops where there is no room for one that is new.

    Text k is data[offsets[k]:offsets[k + 1]]. A new one gets the next slot, or −1 unless `adding`. Returns how far it
    came, and how many keys there are.
    """
    mask = np.uint64(len(places) - 1)
    while row < len(slots):
        start, end = int(offsets[row]), int(offsets[row + 1])
        hashed = hash_text(data, start, end, secret)
        at = hashed & mask
        slot = -1
        while places[at] != 0:
            place = places[at]
            if (place ^ hashed) & _UPPER == 0:
                other = int(np.int64(place & _LOWER)) - 1
                own = starts[other]
                length = end - start
                if starts[other + 1] - own == length and are_equal(letters, own, data, start, length):
                    slot = other
                    break
            at = (at + np.uint64(1)) & mask
        if slot < 0 and adding:
            if 2 * (top + 1) > len(places) or top + 1 >= len(starts) or starts[top] + end - start > len(letters):
                return row, top
            slot, own = top, starts[top]
            for k in range(end - start):
                letters[own + k] = data[start + k]
            top += 1
            starts[top] = own + end - start
            places[at] = (hashed & _UPPER) | np.uint64(top)
        slots[row] = slot
        row += 1
    return row, top


@compiled
def number_words(
    places: Places, secret: Secret, words: Integers, top: int, keys: Integers, row: int, adding: bool, slots: Integers
) -> tuple[int, int]:
    """The same where each key is one word."""
    mask = np.uint64(len(places) - 1)
    while row < len(slots):
        key = keys[row]
        hashed = hash_word(np.uint64(key), secret)
        at = hashed & mask
        slot = -1
        while places[at] != 0:
            place = places[at]
            if (place ^ hashed) & _UPPER == 0 and words[int(np.int64(place & _LOWER)) - 1] == key:
                slot = int(np.int64(place & _LOWER)) - 1
                break
            at = (at + np.uint64(1)) & mask
        if slot < 0 and adding:
            if 2 * (top + 1) > len(places) or top >= len(words):
                return row, top
            slot = top
            words[top] = key
            top += 1
            places[at] = (hashed & _UPPER) | np.uint64(top)
        slots[row] = slot
        row += 1
    return row, top


@compiled
def place_texts(places: Places, secret: Secret, starts: Integers, letters: Letters, top: int) -> None:
    """Fill an empty table with the keys that there are."""
    mask = np.uint64(len(places) - 1)
    for slot in range(top):
        hashed = hash_text(letters, starts[slot], starts[slot + 1], secret)
        at = hashed & mask
        while places[at] != 0:
            at = (at + np.uint64(1)) & mask
        places[at] = (hashed & _UPPER) | np.uint64(slot + 1)


@compiled
def place_words(places: Places, secret: Secret, words: Integers, top: int) -> None:
    """The same where each key is one word."""
    mask = np.uint64(len(places) - 1)
    for slot in range(top):
        hashed = hash_word(np.uint64(words[slot]), secret)
        at = hashed & mask
        while places[at] != 0:
            at = (at + np.uint64(1)) & mask
        places[at] = (hashed & _UPPER) | np.uint64(slot + 1)


@compiled
def are_alike(offsets: Offsets, data: Letters) -> bool:
    """Whether all texts of a column are the same one: of one length, and each byte equal to the one a text before."""
    first = offsets[0]
    length = offsets[1] - first
    for k in range(len(offsets)):
        if offsets[k] != first + k * length:
            return False
    return bool(np.all(data[first + length : offsets[-1]] == data[first : offsets[-1] - length]))


def numbered_plainly(known: dict[Hashable, int], keys: Sequence[Hashable]) -> list[int]:
    """The slot of each key; new ones are numbered in the order in which they come.

    >>> numbered_plainly({"b": 0}, ["a", "b", "a"])
    [1, 0, 1]
    """
    return [known.setdefault(key, len(known)) for key in keys]
