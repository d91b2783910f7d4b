"""A server in this process: a node that a test can reach into, behind a real socket."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import uvicorn

from slackwater.dissemination.transports.asgi import HeldProtocol
from slackwater.server.node import Node, NodeSettings
from slackwater.server.rest.app import make_app


@dataclass(frozen=True, slots=True)
class NodeServer:
    node: Node
    url: str


@asynccontextmanager
async def served(settings: NodeSettings) -> AsyncIterator[NodeServer]:
    """Open a node, listen on a port that the system chooses, and stop at the end."""
    node = Node(settings)
    config = uvicorn.Config(make_app(node), port=0, ws=HeldProtocol, lifespan="on", log_config=None, loop="asyncio")
    server = uvicorn.Server(config)
    server.capture_signals = _nothing  # type: ignore[method-assign]
    task = asyncio.create_task(server.serve())
    try:
        while not server.started:
            assert not task.done()
            await asyncio.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield NodeServer(node, f"http://127.0.0.1:{port}")
    finally:
        server.should_exit = True
        await task


@contextmanager
def _nothing() -> Iterator[None]:
    yield
