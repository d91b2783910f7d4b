"""A server that cannot say where it listens, for want of room on the disk, says so later."""

import threading
from pathlib import Path

import httpx

from slackwater.deployment.endpoint_file import STATE_FILE
from tests.support.server_process import ServerProcess


def test_the_endpoint_file_is_written_when_it_can_be(tmp_path: Path) -> None:
    folder = tmp_path / "node"
    obstacle = folder / f"{STATE_FILE}.draft"
    obstacle.mkdir(parents=True)
    server = ServerProcess(folder)

    def clear() -> None:
        while "cannot be written" not in server.report():
            threading.Event().wait(0.02)
        obstacle.rmdir()

    clearing = threading.Thread(target=clear, daemon=True)
    clearing.start()
    with server:
        assert httpx.get(f"{server.url}/v1/ready").status_code == 200
        clearing.join(60)
        assert "Traceback" not in server.report()
