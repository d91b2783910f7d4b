"""Who waits for what, against a list of all who wait."""

import random
from collections.abc import Iterable

from slackwater.core.rights import EVERY_ROW
from slackwater.dissemination.encoding import Encoding
from slackwater.sessions.events import Principal
from slackwater.sessions.limits import ServerLimits
from slackwater.sessions.pending import PendingSubscriptions
from slackwater.sessions.session import Session, SessionSubscription

TEXTS, NAMES = ["a", "b"], [None, "Hot", "hot", "cold"]


def refs(some: Iterable[tuple[Session, SessionSubscription]]) -> list[int]:
    return sorted(one.ref for _, one in some)


def session(connection: int) -> Session:
    principal = Principal(f"p{connection}", may_register=True)
    return Session(connection, "s", principal, Encoding.MESSAGEPACK, ServerLimits(), 0)


def test_those_who_wait_are_those_on_the_list() -> None:
    generator = random.Random(5)
    sessions = [session(connection) for connection in range(3)]
    pending = PendingSubscriptions()
    waiting: list[tuple[Session, SessionSubscription]] = []

    def low(name: str | None) -> str | None:
        return None if name is None else name.lower()

    for ref in range(2_000):
        text, name = generator.choice(TEXTS), generator.choice(NAMES)
        match generator.randrange(6):
            case 0 | 1 | 2:
                one = generator.choice(sessions), SessionSubscription(ref, None, text, EVERY_ROW, name)
                same = [other for _, other in waiting if (other.text, low(other.name)) == (text, low(name))]
                assert pending.add(*one) is (not same)
                assert pending.add(*one) is False
                waiting.append(one)
            case 3 if waiting:
                one = waiting.pop(generator.randrange(len(waiting)))
                pending.remove(*one)
            case 4:
                served = [one for one in waiting if one[1].text == text and low(one[1].name) in (None, low(name))]
                assert {id(one[1]) for one in pending.served_by(text, EVERY_ROW, name)} == {
                    id(one[1]) for one in served
                }
                waiting = [one for one in waiting if one not in served]
            case 5:
                beaten = [
                    one for one in waiting if name is not None and low(one[1].name) == low(name) and one[1].text != text
                ]
                assert {id(one[1]) for one in pending.beaten_by(text, EVERY_ROW, name)} == {
                    id(one[1]) for one in beaten
                }
                waiting = [one for one in waiting if one not in beaten]
        assert len(pending) == len(waiting)
        assert refs(pending.of("p1")) == refs(one for one in waiting if one[0] is sessions[1])
    for one in waiting:
        pending.remove(*one)
    assert not pending._waiters
    assert not pending._named
