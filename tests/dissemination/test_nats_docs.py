"""The page about NATS may not say what is not so."""

import json
from pathlib import Path
from typing import Any

from slackwater.core.bus import DEFAULT_NAME
from slackwater.dissemination.transports.nats import dialled
from slackwater.log.jetstream import PATIENCE
from slackwater.log.jetstream_block import BLOCK_BYTES

ROOT = Path(__file__).parents[2]


def page() -> str:
    return (ROOT / "docs" / "nats.md").read_text()


def result() -> dict[str, Any]:
    figures: dict[str, Any] = json.loads((ROOT / "benchmarks" / "results" / "live_subscriptions_nats.json").read_text())
    return figures


def spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def figures() -> list[str]:
    """The table of the page, made from the measured result."""
    live, multicast, carried = (result()[part] for part in ("live", "multicast", "carried"))
    times, heard = live["ingest_to_client_ms"], multicast["publish_to_member_ms"]
    return [
        f"| notifications a second; messages of the bus a second | {spaced(live['notifications_a_second'])}; "
        f"{spaced(round(live['bus_messages_in_a_second']))} |",
        f"| from ingest to client: median, 99th percentile, longest | {times['p50']:.0f} ms, {times['p99']:.0f} ms, "
        f"{times['most']:.0f} ms |",
        f"| failures; values outside their bound of {spaced(live['values_checked'])} checked | {live['failures']}; "
        f"{live['values_outside_their_bound']} |",
        f"| cores: the node, the NATS server, the generator | {live['server_cores']}, {live['nats_server_cores']}, "
        f"{live['generator_cores']} |",
        f"| messages published; taken, and sent, by the NATS server | {multicast['published_by_our_count']}; "
        f"{multicast['received_by_the_server']}, {spaced(multicast['sent_by_the_server'])} |",
        f"| from publish to a member: median, 99th percentile | {heard['p50']:.0f} ms, {heard['p99']:.0f} ms |",
        f"| messages a second through {carried['connections']} connections, both ends in one process | "
        f"{spaced(carried['messages_a_second'])} |",
    ]


def test_figures_are_the_measured_ones() -> None:
    for line in figures():
        assert line in page()


def test_the_measured_ones_are_what_was_asked_for() -> None:
    live, multicast = result()["live"], result()["multicast"]
    assert live["subscriptions"] == 10_000
    assert live["failures"] == live["values_outside_their_bound"] == multicast["wrong_or_missing"] == 0
    assert multicast["members"] == 1_000
    assert multicast["received_by_the_server"] == multicast["published_by_our_count"] == multicast["messages"]


def test_names_and_limits_are_the_real_ones() -> None:
    text = page()
    assert f"it is `{DEFAULT_NAME}`" in text
    assert f"`{dialled('NAME')}`" in text
    assert f"waited for, {PATIENCE:g} seconds" in text
    assert f"several of {BLOCK_BYTES >> 20} MiB" in text
