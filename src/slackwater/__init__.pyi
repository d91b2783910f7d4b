from slackwater.client import Cache as Cache
from slackwater.client import connect as connect
from slackwater.client import connect_sync as connect_sync

__version__: str
