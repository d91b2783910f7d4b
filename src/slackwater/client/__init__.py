"""Client library: connect, subscribe, query once."""

from slackwater.client.answers import Answer, Explanation, Promised, Receipt, Standing
from slackwater.client.cache.settings import Cache
from slackwater.client.client import Client, connect
from slackwater.client.failures import Forbidden, Misunderstood, Refused, Unauthorized
from slackwater.client.ingest.service import IngestStream
from slackwater.client.live.events import Shown
from slackwater.client.live.subscription import Change, Subscription
from slackwater.client.sync import SyncClient, SyncIngestStream, SyncSubscription, connect_sync

__all__ = [
    "Answer",
    "Cache",
    "Change",
    "Client",
    "Explanation",
    "Forbidden",
    "IngestStream",
    "Misunderstood",
    "Promised",
    "Receipt",
    "Refused",
    "Shown",
    "Standing",
    "Subscription",
    "SyncClient",
    "SyncIngestStream",
    "SyncSubscription",
    "Unauthorized",
    "connect",
    "connect_sync",
]
