"""Fault-injecting HTTP servers on loopback that answer for single items."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class ItemServer(ThreadingHTTPServer):
    """Answers /item/KEY and /items?keys=A,B with rows of `values`; counts what it was asked."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, values: dict[str, float]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.values = values
        self.requests = 0
        self.not_modified = 0
        self.delay = 0.0
        self.status = 200
        self.headers: dict[str, str] = {}
        self._count = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def counted(self) -> None:
        with self._count:
            self.requests += 1


class _Handler(BaseHTTPRequestHandler):
    server: ItemServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.counted()
        time.sleep(self.server.delay)
        parts = urlsplit(self.path)
        if parts.path == "/items":
            keys = parse_qs(parts.query)["keys"][0].split(",")
            body = [{"symbol": key, "price": self.server.values[key]} for key in keys if key in self.server.values]
            self._answer(self.server.status, body, None)
            return
        key = parts.path.rpartition("/")[2]
        etag = f'"{self.server.values.get(key)}"'
        if self.headers.get("If-None-Match") == etag and self.server.status == 200:
            self.server.not_modified += 1
            self._answer(304, None, etag)
        elif key in self.server.values:
            self._answer(self.server.status, {"symbol": key, "price": self.server.values[key]}, etag)
        else:
            self._answer(404, {}, None)

    def _answer(self, status: int, body: object, etag: str | None) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if etag is not None:
            self.send_header("ETag", etag)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def item_server(values: dict[str, float]) -> Iterator[ItemServer]:
    server = ItemServer(values)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
