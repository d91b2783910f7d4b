"""A folder has one writer at a time, and lets the next one in."""

from pathlib import Path

import pytest

from slackwater.core.errors import StoreError
from slackwater.core.folder_lock import LockedFolder


def test_a_second_writer_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    with LockedFolder(tmp_path, "it is being written") as first:
        assert first.folder == tmp_path
        for _ in range(2):
            with pytest.raises(StoreError, match="it is being written"):
                LockedFolder(tmp_path, "it is being written")
    LockedFolder(tmp_path, "it is being written").release()
