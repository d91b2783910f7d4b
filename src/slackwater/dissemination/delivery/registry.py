"""Registry of deliveries: one line for each. Sessions loop over it and name none."""

from collections.abc import Callable
from typing import Any, Final

from slackwater.dissemination.delivery.base import AnyRecipient, Delivery, DeliveryContext
from slackwater.dissemination.delivery.channel import channel
from slackwater.dissemination.delivery.unicast import unicast

DELIVERIES: Final[list[Callable[[DeliveryContext[Any]], Delivery[Any] | None]]] = [unicast, channel]
"""Makers of deliveries; None where a server has it not. The first is every server's, and what others fall back to."""


def make_deliveries(context: DeliveryContext[AnyRecipient]) -> list[Delivery[AnyRecipient]]:
    """The deliveries of one server, in the order of the list."""
    return [one for make in DELIVERIES if (one := make(context)) is not None]
