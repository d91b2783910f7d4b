"""Opening files: formats, and failures with advice."""

import os
from pathlib import Path

import pytest

from slackwater.core.errors import SourceError
from slackwater.sources.file_format import Format, TextBlocks, detect


@pytest.mark.parametrize(
    ("name", "head", "format"),
    [
        ("a.csv", b"", Format.CSV),
        ("a.CSV", b"", Format.CSV),
        ("a.csv.gz", b"", Format.CSV),
        ("a.tsv", b"", Format.CSV),
        ("a.b.jsonl", b"", Format.JSON_LINES),
        ("a.ndjson.gz", b"", Format.JSON_LINES),
        ("a.parquet", b"", Format.PARQUET),
        ("a", b"PAR1....", Format.PARQUET),
        ("a.dat", b'{"x": 1}', Format.JSON_LINES),
    ],
)
def test_formats_are_told_by_name_and_then_by_content(tmp_path: Path, name: str, head: bytes, format: Format) -> None:
    path = tmp_path / name
    path.write_bytes(head)
    assert detect(path) is format


def test_failures_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no file"):
        detect(tmp_path / "missing.csv")
    with pytest.raises(SourceError, match="is a folder"):
        detect(tmp_path)
    odd = tmp_path / "odd.bin"
    odd.write_bytes(b"\x00\x01")
    with pytest.raises(SourceError, match="cannot tell the format"):
        detect(odd)
    with pytest.raises(SourceError):
        detect(Path("nul\0byte.csv"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "secret.csv"
    path.write_text("a\n1\n")
    path.chmod(0)
    with pytest.raises(SourceError, match="permissions"):
        detect(path)


def test_blocks_without_mark_and_without_utf16(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfabcdef")
    assert b"".join(TextBlocks(path, block_bytes=4)) == b"abcdef"
    path.write_bytes("a,b\n".encode("utf-16"))
    with pytest.raises(SourceError, match="UTF-16"):
        list(TextBlocks(path))
