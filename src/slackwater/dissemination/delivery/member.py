"""Channel member: sequence check and gap detection of one subscriber (see `channel` for the numbers).

While the member waits for a state it keeps the messages that come, as far as there is room. With the state it applies
those that follow it. What there was no room for is a gap again.
"""

from collections import deque
from collections.abc import Iterator

from slackwater.dissemination.messages import Channel, Published

MOST_EARLY = 10_000
"""Facts of messages that are kept while the member waits for a state."""


class ChannelMember:
    """One subscription's place in a channel. It begins behind, until `take` brings a state.

    `shown` is the position as of which the subscription is shown already, for example by the channel before this one.
    """

    def __init__(self, name: str, shown: int = -1) -> None:
        self.name = name
        self.behind = True
        """True while the member needs the state."""
        self.epoch = -1
        self.position = shown
        """The position as of which everything applied is right."""
        self._expected = 0
        self._early: deque[Published] = deque()
        self._early_facts = 0

    def take(self, place: Channel) -> bool:
        """Whether a state is to be applied; False where the channel has brought as much or more already."""
        if self.epoch == place.epoch:
            if place.sequence < self._expected:
                return False
        elif place.position < self.position:
            # A channel can be ahead of the session: the state is from before what is shown.
            return False
        self.position = max(self.position, place.position)
        self.epoch, self._expected, self.behind = place.epoch, place.sequence, False
        return True

    def replay(self) -> Iterator[Published]:
        """The messages to be applied after a state, out of those that came before it; `position` moves with each."""
        early, self._early, self._early_facts = self._early, deque(), 0
        for message in early:
            yield from self.hear(message)

    def hear(self, message: Published) -> tuple[Published, ...]:
        """The message, if it is to be applied now."""
        if message.epoch < self.epoch:
            return ()
        if message.epoch > self.epoch or self.behind or message.sequence > self._expected:
            self.behind = True
            self._keep(message)
            return ()
        if message.sequence < self._expected:
            return ()
        self._expected += bool(message.facts)
        self.position = max(self.position, message.position)
        return (message,)

    def miss(self) -> None:
        """Some messages did not arrive, it is not known which."""
        self.behind = True

    def _keep(self, message: Published) -> None:
        self._early.append(message)
        self._early_facts += len(message.facts) + 1
        while self._early_facts > MOST_EARLY:
            self._early_facts -= len(self._early.popleft().facts) + 1
