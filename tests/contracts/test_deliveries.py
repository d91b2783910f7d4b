"""The promises of `dissemination.delivery.base`: what a channel brings is what unicast brings."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from slackwater.client.live.memberships import Memberships
from slackwater.dissemination.delivery.channel import ChannelDelivery
from slackwater.dissemination.delivery.member import ChannelMember
from slackwater.dissemination.messages import Channel, Fact, Published
from tests.support.delivery_world import DeliveryWorld, Violation

SEEDS = range(40)
ACTIONS = 150


def run(seed: int) -> DeliveryWorld:
    """A world with faults, and then without: right all the time, and in the end certain and up to date."""
    world = DeliveryWorld(seed)
    for _ in range(2):
        world.join()
    for _ in range(ACTIONS):
        world.act()
    world.calm()
    state = world.bench.state
    assert state is not None
    for peer in world.peers:
        for ref in peer.state.held:
            shown = peer.state.shown(ref, peer.now)
            if not shown.certain or shown.as_of != state.position:
                raise Violation(f"nothing goes on: {shown}")
    return world


def run_all() -> None:
    for seed in SEEDS:
        run(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_member_shows_what_a_unicast_subscriber_has_as_of_the_same_position(seed: int) -> None:
    run(seed)


def test_the_worlds_are_what_they_are_meant_to_be() -> None:
    heard = by_channel = 0
    for seed in range(4):
        world = run(seed)
        heard += sum(peer.heard_by_channel for peer in world.peers)
        by_channel += sum(held.member is not None for peer in world.peers for held in peer.state.held.values())
    assert heard > 200
    assert by_channel > 4


def test_a_step_is_published_once_however_many_listen() -> None:
    world = DeliveryWorld(1)
    peers = [world.join(faults=False) for _ in range(20)]
    for _ in range(20):
        world.wait(250_000, many=20)
    before, sent = world.published, sum(len(peer.down) for peer in peers)
    assert sent == 0
    for price in range(10):
        world.log(world.bench.updates((1, 10.0 * price)))
    assert world.published == before + 20, "one for the sum and one for the rows, each step"
    assert not any(peer.down for peer in peers), "and nothing by the sessions"
    for _ in range(8):
        world.wait(250_000, many=20)
    state = world.bench.state
    assert state is not None
    shown = [peer.state.shown(ref, peer.now) for peer in peers for ref in peer.state.held]
    assert {one.as_of for one in shown} == {state.position}
    assert all(one.certain for one in shown)


# Bugs that are planted, and must be found.


def _gaps_ignored(self: ChannelMember, message: Published) -> tuple[Published, ...]:
    self._expected = message.sequence + bool(message.facts)
    self.position = max(self.position, message.position)
    return () if self.behind or message.epoch != self.epoch else (message,)


def _older_states_taken(self: ChannelMember, place: Channel) -> bool:
    self.position, self.epoch = place.position, place.epoch
    self._expected, self.behind = place.sequence, False
    return True


def _renewed_in_silence(self: Any, query: int, state: Callable[[Any], Iterable[Fact]]) -> None:
    return None


def _any_frame_vouches(self: Memberships, held: Any, holder: Any) -> None:
    if self._vouched:
        held.until = max(held.until, self._vouched[-1][1])


def _early_forgotten(self: ChannelMember) -> list[Published]:
    for one in self._early:
        self._expected = max(self._expected, one.sequence + bool(one.facts))
    self._early.clear()
    return []


@pytest.mark.parametrize(
    ("owner", "name", "bug"),
    [
        (ChannelMember, "hear", _gaps_ignored),
        (ChannelMember, "take", _older_states_taken),
        (ChannelDelivery, "renew", _renewed_in_silence),
        (Memberships, "_extend", _any_frame_vouches),
        (ChannelMember, "replay", _early_forgotten),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_planted_bugs_are_found(owner: type, name: str, bug: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, bug)
    with pytest.raises(Violation):
        run_all()
