"""The bounded server that an engineer writes in an afternoon: the rival of `live_minute`.

    python -m benchmarks.bounded_server ITEMS FILE

Rows come as MessagePack lists [[item, price], …] and are acknowledged, with how many there are, once a file holds
them durably (fdatasync, one for all that came in a turn of the loop). A subscriber sends [[bound, items, weights], …]
and gets [number, value] for each sum, then whenever a sum has left its bound around the value last sent. There is no
more: no tables, no SQL, no schema, no leases, no resumption, no back-pressure, no restart.
"""

import asyncio
import os
import sys
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
from websockets.asyncio.server import ServerConnection, broadcast, serve
from websockets.exceptions import ConnectionClosed

encode, decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode


class Bounded:
    """Prices, and the sums over them."""

    def __init__(self, items: int, file: int) -> None:
        self.prices, self.file = np.zeros(items), file
        self.sums_of: list[list[int]] = [[] for _ in range(items)]
        self.weights_of: list[list[float]] = [[] for _ in range(items)]
        self.sent = self.values = self.bounds = np.zeros(0)
        self.subscribers: list[ServerConnection] = []
        self.arrived: list[tuple[ServerConnection, bytes]] = []

    async def take(self, socket: ServerConnection) -> None:
        """Serve a connection: rows come at /feed, everything else is a subscriber."""
        with suppress(ConnectionClosed):
            while True:
                message = await socket.recv(decode=False)
                if socket.request is None or socket.request.path != "/feed":
                    self.subscribe(socket, decode(message))
                    continue
                if not self.arrived:
                    asyncio.get_running_loop().call_soon(self.commit)
                self.arrived.append((socket, message))

    def subscribe(self, socket: ServerConnection, sums: list[Any]) -> None:
        """Add the sums of a subscriber."""
        for bound, items, weights in sums:
            number, value = len(self.subscribers), float(np.dot(weights, self.prices[items]))
            for item, weight in zip(items, weights, strict=True):
                self.sums_of[item].append(number)
                self.weights_of[item].append(weight)
            self.subscribers.append(socket)
            self.sent, self.values = np.append(self.sent, value), np.append(self.values, value)
            self.bounds = np.append(self.bounds, bound)
            broadcast((socket,), encode([number, value]))

    def commit(self) -> None:
        """Write what came in this turn of the loop, acknowledge it, and send the sums that left their bounds."""
        arrived, self.arrived = self.arrived, []
        os.writev(self.file, [message for _, message in arrived])
        os.fdatasync(self.file)
        touched: set[int] = set()
        for socket, message in arrived:
            rows = decode(message)
            broadcast((socket,), encode(len(rows)))
            for item, price in rows:
                moved, self.prices[item] = price - self.prices[item], price
                numbers = self.sums_of[item]
                np.add.at(self.values, numbers, moved * np.array(self.weights_of[item]))
                touched.update(numbers)
        places = np.fromiter(touched, np.int64)
        for number in places[np.abs(self.values[places] - self.sent[places]) > self.bounds[places]].tolist():
            self.sent[number] = value = float(self.values[number])
            broadcast((self.subscribers[number],), encode([number, value]))


async def main(items: int, path: str) -> None:
    """Serve until the process is ended."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    async with serve(Bounded(items, file).take, "127.0.0.1", 0, compression=None) as server:
        print(next(iter(server.sockets)).getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
