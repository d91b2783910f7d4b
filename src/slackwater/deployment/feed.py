"""Feed: rows to a server over HTTP, at least once; row identities make repeats harmless.

Every row carries its number, so that a feed may lose the answer, or the server may be killed in between, and sending
again is all there is to do.
"""

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import httpx
import pyarrow as pa

from slackwater.core.arrival import Arrival
from slackwater.core.arrow import STREAM_MEDIA_TYPE
from slackwater.core.backoff import Backoff
from slackwater.core.errors import SourceError
from slackwater.core.schema import TableSchema

_AGAIN = frozenset({408, 429, 502, 503, 504})
_BACKOFF = Backoff(first=0.05, most=2.0)


@dataclass(slots=True)
class Fed:
    """Outcome of the rows so far."""

    accepted: int = 0
    quarantined: int = 0
    repeats: int = 0
    position: int = 0


class Feed:
    """Sends arrivals to a server; resolves the server's address again after each failed connection."""

    def __init__(self, address: Callable[[], str | None], token: str | None = None) -> None:
        self._address = address
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._client = httpx.Client(headers=headers, timeout=30)
        self.fed = Fed()

    def define(self, schema: TableSchema) -> None:
        """Make the table, or see that it is there."""
        columns = [{"name": one.name, "type": one.type.value, "nullable": one.nullable} for one in schema.columns]
        body = {"name": schema.name, "columns": columns, "key": list(schema.key), "event_time": schema.event_time}
        self._insist("/v1/tables", {}, json=body)

    def send(self, arrivals: Iterable[Arrival]) -> None:
        """Send everything, in order."""
        for arrival in arrivals:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, arrival.batch.schema) as writer:
                writer.write_batch(arrival.batch)
            parameters = {"source": arrival.source}
            if arrival.timezone is not None:
                parameters["timezone"] = arrival.timezone
            answer = self._insist(
                f"/v1/tables/{arrival.table}/rows",
                parameters,
                content=sink.getvalue().to_pybytes(),
                headers={"content-type": STREAM_MEDIA_TYPE},
            ).json()
            self.fed.accepted += answer["accepted"]
            self.fed.quarantined += answer["quarantined"]
            self.fed.repeats += answer["repeats"]
            self.fed.position = answer["position"]

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def _insist(self, path: str, parameters: dict[str, str], **request: object) -> httpx.Response:
        failures = 0
        while True:
            address = self._address()
            if address is not None:
                try:
                    answer = self._client.post(address + path, params=parameters, **request)  # type: ignore[arg-type]
                except httpx.TransportError:
                    pass
                else:
                    if answer.is_success:
                        return answer
                    if answer.status_code not in _AGAIN:
                        raise SourceError(f"the server refused rows for {path}: {answer.text[:500]}")
            failures += 1
            time.sleep(_BACKOFF.delay(failures, random.random))
