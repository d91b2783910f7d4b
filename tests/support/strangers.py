"""Strangers: plain TCP connections to a server that say nothing, half of something, or too much."""

import socket
import struct
import time
from types import TracebackType
from typing import Self

PATIENCE = 60.0
_FROM_ANY_PORT: int | None = getattr(socket, "IP_BIND_ADDRESS_NO_PORT", None)
_AT_ONCE = struct.pack("ii", 1, 0)
"""Of `SO_LINGER`: a socket that is closed leaves no port behind that waits for a minute."""
HALF_HEAD = b"GET /v1/health HTTP/1.1\r\nhost: 127.0.0.1"


class Strangers:
    """Sockets that are closed at the end."""

    def __init__(self, port: int) -> None:
        self._address = ("127.0.0.1", port)
        self.sockets: list[socket.socket] = []

    def connect(self, first: bytes = b"", *, origin: str = "127.0.0.1", buffer: int | None = None) -> socket.socket:
        """A connection, with what it says at once; `buffer`: bytes that it takes unread."""
        made = socket.socket()
        self.sockets.append(made)
        if buffer is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        if _FROM_ANY_PORT is not None:
            # The port is chosen with the address of the peer in view: there are as many for each listener.
            made.setsockopt(socket.IPPROTO_IP, _FROM_ANY_PORT, 1)
        made.bind((origin, 0))
        made.settimeout(PATIENCE)
        made.connect(self._address)
        if first:
            made.sendall(first)
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self.sockets:
            one.close()


def read_to_end(stranger: socket.socket) -> bytes:
    """All that the server sends until it closes the connection; `TimeoutError` if it does not."""
    pieces = []
    try:
        while piece := stranger.recv(65_536):
            pieces.append(piece)
    except (ConnectionResetError, BrokenPipeError):
        pass
    return b"".join(pieces)


def drip(stranger: socket.socket, piece: bytes, pause: float) -> None:
    """Send the same few bytes again and again until the server closes the connection."""
    give_up = time.monotonic() + PATIENCE
    stranger.settimeout(pause)
    while time.monotonic() < give_up:
        try:
            stranger.sendall(piece)
            if not stranger.recv(65_536):
                return
        except TimeoutError:
            continue
        except (ConnectionResetError, BrokenPipeError):
            return
    raise TimeoutError(f"the server took {piece!r} for {PATIENCE:g} s")
