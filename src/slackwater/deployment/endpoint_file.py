"""Where a node listens, written into its folder once it does: how processes beside each other find each other."""

from pathlib import Path

import msgspec

STATE_FILE = "server.json"


class Listening(msgspec.Struct, frozen=True):
    """Where a server listens; written into its folder once it does."""

    host: str
    port: int
    pid: int
    node: str
    generation: int

    @property
    def url(self) -> str:
        """The address for programs."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def read_state(folder: Path) -> Listening | None:
    """Where the server of a folder listens, if it says so."""
    try:
        return msgspec.json.decode((folder / STATE_FILE).read_bytes(), type=Listening)
    except (OSError, msgspec.MsgspecError):
        return None
