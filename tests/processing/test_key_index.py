"""Slots of keys: the index against a dictionary, and its hash against Python's own."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.core import DataType
from slackwater.core.arrow import ARROW_TYPES
from slackwater.kernels.key_rows import append_part, written_plainly
from slackwater.kernels.key_table import are_alike, hash_text, numbered_plainly
from slackwater.processing.columns import python_values, texts_of
from slackwater.processing.key_index import key_index, side_by_side

PARTS: dict[DataType, st.SearchStrategy[Any]] = {
    DataType.TEXT: st.text(max_size=20) | st.sampled_from(["", "a", "aa", "ab" * 8, "ab" * 8 + "c"]),
    DataType.BIGINT: st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    DataType.DOUBLE: st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0]),
    DataType.BOOLEAN: st.booleans(),
    DataType.TIMESTAMP: st.integers(-(2**63), 2**63 - 1),
}


@settings(max_examples=150, deadline=None)
@given(st.data(), st.lists(st.sampled_from(list(PARTS)), min_size=1, max_size=3))
def test_equals_a_dictionary(data: st.DataObject, kinds: list[DataType]) -> None:
    index, known = key_index(kinds), dict[Any, int]()
    keys = st.lists(st.tuples(*(PARTS[kind] for kind in kinds)), max_size=30)
    for batch in data.draw(st.lists(keys, max_size=4)):
        cut = data.draw(st.integers(0, len(batch)))
        columns = [
            pa.array([key[place] for key in batch], pa.int64() if kind is DataType.TIMESTAMP else ARROW_TYPES[kind])
            .view(ARROW_TYPES[kind])
            .slice(cut)
            for place, kind in enumerate(kinds)
        ]
        unknown = [known.get(key, -1) for key in batch]
        assert index.number_keys(batch, adding=False).tolist() == unknown
        # A part of them comes from Python, the others in columns that begin somewhere within theirs.
        assert index.number_keys(batch[:cut]).tolist() == numbered_plainly(known, batch[:cut])
        assert index.number(columns).tolist() == numbered_plainly(known, batch[cut:])
        assert len(index) == len(known)
    every = np.arange(len(known))[::-1].copy()
    found = list(zip(*map(python_values, index.columns(every)), strict=True)) if known else []
    assert found == list(known)[::-1]


def test_grows_to_many_keys() -> None:
    keys = [f"key {n}" * (n % 5) + str(n) for n in range(20_000)]
    index = key_index([DataType.TEXT])
    assert index.number([pa.array(keys)]).tolist() == list(range(len(keys)))
    assert index.number([pa.array(keys[::-1])], adding=False).tolist() == list(range(len(keys)))[::-1]
    numbers = key_index([DataType.BIGINT])
    words = np.random.default_rng(1).permutation(20_000) << 20
    assert numbers.number([pa.array(words)]).tolist() == list(range(len(words)))
    assert numbers.number([pa.array(words[::-1])], adding=False).tolist() == list(range(len(words)))[::-1]


def test_the_hash_is_that_of_python() -> None:
    if sys.hash_info.algorithm != "siphash13":
        pytest.skip(f"this Python hashes texts by {sys.hash_info.algorithm}")
    texts = [bytes(range(n)) for n in range(1, 40)]
    command = f"print([hash(text) for text in {texts!r}])"
    # With this seed Python's secret is zero.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    said = subprocess.run([sys.executable, "-c", command], capture_output=True, check=True, env=environment, text=True)
    secret = np.zeros(2, np.uint64)
    own = [
        int(np.uint64(hash_text(np.frombuffer(text, np.uint8), 0, len(text), secret)).view(np.int64)) for text in texts
    ]
    assert str(own) == said.stdout.strip()


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text(max_size=9)), max_size=9))
def test_keys_of_parts_are_told_apart(keys: list[tuple[int, str]]) -> None:
    words = np.array([key[0] for key in keys], np.int64).view(np.uint8)
    numbers = (8 * np.arange(len(keys) + 1, dtype=np.int32), words)
    texts = side_by_side([key[1].encode() for key in keys])
    offsets, data = np.zeros(len(keys) + 1, np.int32), np.zeros(0, np.uint8)
    for part, is_text in ((numbers, False), (texts, True)):
        longer_offsets, longer = (
            np.empty(len(keys) + 1, np.int32),
            np.empty(len(data) + len(part[1]) + 4 * len(keys), np.uint8),
        )
        append_part(offsets, data, *part, is_text, longer_offsets, longer)
        offsets, data = longer_offsets, longer
    written = [data[offsets[k] : offsets[k + 1]].tobytes() for k in range(len(keys))]
    assert written == [written_plainly(key) for key in keys]


@given(st.lists(st.sampled_from(["", "a", "b", "ab", "ba", "aba"]), min_size=1, max_size=5), st.integers(0, 2))
def test_columns_of_one_text(texts: list[str], start: int) -> None:
    array = pa.array(["xy"] * start + texts).slice(start)
    assert are_alike(*texts_of(array)) == (len(set(texts)) == 1)
