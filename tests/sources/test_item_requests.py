"""Items over HTTP: one and several, unchanged, missing, refused, slow, and a server that wants rest."""

import random

import pytest

from slackwater.core.backoff import Backoff
from slackwater.core.errors import SourceError
from slackwater.sources.item_requests import Endpoint, Got, ItemFetcher, PullFailure, Same
from slackwater.sources.poll_schedule import PollOptions
from slackwater.wallclock import WallClock
from tests.support.item_servers import ItemServer, item_server


def fetcher(server: ItemServer, *, several: bool = True, **options: object) -> ItemFetcher:
    more = f"{server.url}/items?keys={{keys}}" if several else None
    endpoint = Endpoint(f"{server.url}/item/{{key}}", more, "symbol", "price", together=2)
    told = PollOptions(rate=1000, burst=1000, backoff=Backoff(first=0.5, jitter=0), **options)  # type: ignore[arg-type]
    return ItemFetcher(endpoint, WallClock(), random.Random(1), told)


async def test_one_and_several() -> None:
    with item_server({"A": 1.0, "B": 2.5, "C/1": 3.0}) as server:
        made = fetcher(server)
        async with made.client() as client:
            assert await made.fetch(client, ["A"]) == [Got("A", 1.0)]
            assert await made.fetch(client, ["A", "B"]) == [Got("A", 1.0), Got("B", 2.5)]
            assert made.groups(["A", "B", "C/1"]) == [["A", "B"], ["C/1"]]
            assert fetcher(server, several=False).groups(["A", "B"]) == [["A"], ["B"]]
        assert (made.requests, server.requests) == (2, 2)


async def test_what_did_not_change_is_not_sent_again() -> None:
    with item_server({"A": 1.0}) as server:
        made = fetcher(server)
        async with made.client() as client:
            assert await made.fetch(client, ["A"]) == [Got("A", 1.0)]
            assert await made.fetch(client, ["A"]) == [Same("A")]
            server.values["A"] = 4.0
            assert await made.fetch(client, ["A"]) == [Got("A", 4.0)]
        assert server.not_modified == 1


async def test_what_goes_wrong_is_told_for_each_item_and_waits_longer_each_time() -> None:
    with item_server({"A": 1.0}) as server:
        made = fetcher(server, timeout=0.3)
        async with made.client() as client:
            [got, missed] = await made.fetch(client, ["A", "B"])
            assert got == Got("A", 1.0)
            assert isinstance(missed, PullFailure)
            assert "no price of B" in missed.why
            server.status = 500
            waits = []
            for _ in range(3):
                [told] = await made.fetch(client, ["A"])
                assert isinstance(told, PullFailure)
                assert "500" in told.why
                waits.append(told.again)
            assert waits == [0.5, 1.0, 2.0]
            server.status, server.delay = 200, 1.0
            [late] = await made.fetch(client, ["A"])
            assert isinstance(late, PullFailure)
            assert "within 0.3 seconds" in late.why


async def test_a_server_that_asks_for_rest_is_left_alone() -> None:
    with item_server({"A": 1.0}) as server:
        made = fetcher(server)
        server.status, server.headers = 429, {"Retry-After": "60"}
        async with made.client() as client:
            [told] = await made.fetch(client, ["A"])
            assert isinstance(told, PullFailure)
            assert told.again == 60
            [again] = await made.fetch(client, ["A"])
            assert isinstance(again, PullFailure)
            assert 50 < again.again <= 60
        assert server.requests == 1, "the second was not even asked"


@pytest.mark.parametrize("address", ["http://h/x", "http://h/{key}/{key}", "ftp://h/{key}", "h/{key}"])
def test_addresses_that_cannot_be(address: str) -> None:
    with pytest.raises(SourceError):
        Endpoint(address, None, "symbol", "price")
