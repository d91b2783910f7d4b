"""Literals of the wanted type are read at once, to the value that folding gives."""

import pytest

from slackwater.core import DataType
from slackwater.sql import parse
from slackwater.sql.constants import coerce, fold, plain_literal
from slackwater.sql.place import Text

PLAIN = {
    DataType.BIGINT: {"0", "7", "007", "9" * 18},
    DataType.DOUBLE: {"0", "7", "007", "9" * 18, "1.0", "2.50", "1e3", "1E3", "0.1", "5e-324"},
    DataType.TEXT: {"'5'", "'a'", "''", "'it''s'"},
}
WRITTEN = [*sorted(set().union(*PLAIN.values())), "9" * 19, "9e999", "1.0000000000000000001", "-1", "NULL", "TRUE"]


@pytest.mark.parametrize("kind", DataType)
@pytest.mark.parametrize("written", WRITTEN)
def test_a_plain_literal_is_what_folding_gives(written: str, kind: DataType) -> None:
    node = parse(f"SELECT {written}").tree.expressions[0]
    plain = plain_literal(node, kind)
    assert (plain is not None) is (written in PLAIN.get(kind, ()))
    if plain is not None:
        constant = fold(node, Text(written))
        assert constant is not None
        right = coerce(constant, kind, node, Text(written), "it")
        assert (plain, type(plain)) == (right, type(right))
