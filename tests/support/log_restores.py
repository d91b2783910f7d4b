"""A log in a folder that is copied and restored as an operator of the system would do it."""

import shutil
from copy import deepcopy
from pathlib import Path
from random import Random

from slackwater.log import LocalLog
from tests.support.histories import History

NOT_COPIED = shutil.ignore_patterns("durable", "lock")


class RestoredLog:
    """A writer of a log, and copies of the folder, each with what the maker of its records knows."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder / "log"
        self.random = Random(seed)
        self.history = History(seed)
        self.log = LocalLog(self.folder)
        self.log.append(self.history.beginning())
        self._copies = folder / "copies"
        self._known: list[History] = []
        self.copy()

    def append(self, most: int = 12) -> None:
        self.log.append(self.history.more(self.random.randint(1, most)))

    def copy(self) -> None:
        shutil.copytree(self.folder, self._copies / str(len(self._known)), ignore=NOT_COPIED)
        self._known.append(deepcopy(self.history))

    def put_back(self) -> None:
        """Put a copy in place of the log; nothing has opened it yet."""
        self.log.close()
        nth = self.random.randrange(len(self._known))
        shutil.rmtree(self.folder)
        shutil.copytree(self._copies / str(nth), self.folder)
        self.history = deepcopy(self._known[nth])
        # What is written from now on differs.
        self.history.random.seed(self.random.random())

    def open(self) -> None:
        self.log = LocalLog(self.folder)

    def close(self) -> None:
        self.log.close()
