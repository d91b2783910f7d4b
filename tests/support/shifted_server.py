"""Server process whose wall clock is wrong by so many seconds, as if the machine's clock had been set."""

from pathlib import Path

from tests.support.server_process import ServerProcess

_SHIFTED = """
from slackwater import cli, wallclock

class Shifted(wallclock.WallClock):
    def now(self):
        return super().now() + {shift}

wallclock.WallClock = Shifted
cli.main()
"""


class ShiftedServer(ServerProcess):
    """`slackwater serve FOLDER …` with a wall clock that is `seconds` ahead; a negative number: behind."""

    def __init__(self, folder: Path, seconds: float, *arguments: str, port: int = 0) -> None:
        super().__init__(folder, *arguments, port=port)
        self.program = ("-c", _SHIFTED.format(shift=round(seconds * 1_000_000)))
