"""A node that opens on a full disk serves what it has, refuses changes, says so, and takes them when there is room."""

import asyncio
import json
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import pytest

import slackwater
from slackwater.core.types import Instant
from slackwater.server.store import STORE_FILE, Scope, Store

TABLE = {
    "name": "rows",
    "columns": [{"name": "k", "type": "BIGINT", "nullable": False}, {"name": "v", "type": "BIGINT"}],
    "key": ["k"],
}
TOTAL = "SUBSCRIBE SELECT SUM(v) FROM rows WITHIN 0"


class Disk:
    """A disk that is filled and emptied on demand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix: list[str] = []
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Take all the room that is left."""
        with self._filler.open("ab", buffering=0) as filler:
            for size in (65_536, 4_096, 1):
                try:
                    while filler.write(bytes(size)) == size:
                        pass
                except OSError:
                    continue

    def empty(self, pid: int) -> None:
        """Give room back, while a process runs."""
        self._filler.unlink()


class LimitedDisk(Disk):
    """No file may grow: what a full disk is to a process, for tests without the rights to mount one."""

    def fill(self) -> None:
        limit = "import os, resource as r, sys; r.setrlimit(r.RLIMIT_FSIZE, (0, r.RLIM_INFINITY)); "
        self.prefix = [sys.executable, "-c", limit + "os.execv(sys.argv[1], sys.argv[1:])"]

    def empty(self, pid: int) -> None:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self.prefix = []


@pytest.fixture
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    if request.param == "limit":
        if not hasattr(resource, "prlimit"):
            pytest.skip("needs prlimit")
        yield LimitedDisk(tmp_path)
        return
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def node(disk: Disk, *, kill: bool = False) -> Iterator[tuple[str, int, int]]:
    """A server; its address, process and generation. Its reports go to no file, as there is no room."""
    command = [*disk.prefix, sys.executable, "-m", "slackwater", "serve", str(disk.folder / "node")]
    process = subprocess.Popen(
        [*command, "--port", "0", "--json", "--lease", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        if not line.startswith('{"event"'):
            assert process.stderr is not None
            raise AssertionError(f"the server did not start: {process.stdout.read()} {process.stderr.read()}")
        listening = json.loads(line)
        yield listening["url"], process.pid, listening["generation"]
    finally:
        if kill:
            process.kill()
        else:
            process.terminate()
        _, reports = process.communicate(timeout=60)
        assert "Traceback" not in reports, reports
        assert kill or process.returncode == 0


@asynccontextmanager
async def web(url: str, token: str) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url, timeout=30, headers=headers) as client:
        yield client


async def send(client: httpx.AsyncClient, first: int) -> httpx.Response:
    lines = [json.dumps({"k": n, "v": n}) for n in range(first, first + 5)] + ['{"k": null, "v": 1}']
    return await client.post(
        "/v1/tables/rows/rows",
        params={"source": "sender", "first": first},
        content="\n".join(lines),
        headers={"content-type": "application/x-ndjson"},
    )


async def eventually(holds: Callable[[httpx.Response], bool], client: httpx.AsyncClient, path: str) -> None:
    async with asyncio.timeout(30):
        while not holds(await client.get(path)):
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("disk", "kill"),
    [
        ("tmpfs", True),
        ("limit", False),
        pytest.param("tmpfs", False, marks=pytest.mark.slow),
        pytest.param("limit", True, marks=pytest.mark.slow),
    ],
    indirect=["disk"],
)
async def test_a_full_disk_forbids_no_restart_that_only_reads(disk: Disk, kill: bool) -> None:
    (disk.folder / "node").mkdir()
    with Store(disk.folder / "node" / STORE_FILE) as store:
        _, token = store.create_token("ann", [Scope.ADMIN], Instant(0))
        _, revoked = store.create_token("bob", [Scope.ADMIN], Instant(0))
    with node(disk, kill=kill) as (url, _, first_generation):
        async with web(url, token) as client:
            assert (await client.post("/v1/tables", json=TABLE)).is_success
            assert (await send(client, 0)).json()["accepted"] == 5
        async with slackwater.connect(url, token=token) as live:
            assert (await live.subscribe(TOTAL).ready()).value == 10
        # In the store's journal, not yet in its file, when the server is killed.
        with Store(disk.folder / "node" / STORE_FILE) as store:
            store.revoke_token("bob", Instant(1))
    disk.fill()
    with node(disk, kill=kill) as (url, pid, generation):
        assert generation > first_generation
        async with web(url, token) as client:
            unready = await client.get("/v1/ready")
            assert unready.status_code == 503
            assert "read only: the disk is full" in unready.json()["message"]
            assert (await client.get("/v1/health")).status_code == 200
            async with web(url, revoked) as stranger:
                assert (await stranger.get("/v1/tables")).status_code == 401
            answer = await client.post("/v1/query", json={"sql": "SELECT SUM(v) AS s FROM rows"})
            assert answer.json()["rows"] == [[10]], answer.text
            assert len((await client.get("/v1/tables/rows/quarantine")).json()["rows"]) == 1
            refused = await send(client, 10)
            assert (refused.status_code, refused.json()["error"]) == (503, "full"), refused.text
            assert "nothing of it was kept" in refused.json()["message"]
            assert (await send(client, 0)).json()["repeats"] >= 5, "a repeat needs no room"
            async with slackwater.connect(url, token=token) as live:
                total = live.subscribe(TOTAL)
                assert (await total.ready()).value == 10
                assert total.shown.certain
                disk.empty(pid)
                await eventually(lambda one: one.status_code == 200, client, "/v1/ready")
                position = (await send(client, 10)).json()["position"]
                assert (await total.reached(position, 20)).value == 70
                assert total.shown.certain
        # What was left out is made good, without another start.
        async with asyncio.timeout(30):
            while not _kept(disk.folder / "node", generation):
                await asyncio.sleep(0.1)
    with node(disk) as (url, _, last_generation):
        assert last_generation > generation
        async with web(url, token) as client:
            assert (await client.get("/v1/ready")).status_code == 200
            assert (await send(client, 10)).json()["repeats"] >= 5
            async with web(url, revoked) as stranger:
                assert (await stranger.get("/v1/tables")).status_code == 401
    assert not list((disk.folder / "node").glob(".room*"))


def _kept(folder: Path, generation: int) -> bool:
    with Store(folder / STORE_FILE) as store:
        return store.generation == generation
