"""REST routes: the list of operations, one subject a file."""

from slackwater.server.rest.caches import OPERATIONS as _CACHES
from slackwater.server.rest.health import OPERATIONS as _HEALTH
from slackwater.server.rest.joins import OPERATIONS as _JOINS
from slackwater.server.rest.operation import RestOperation
from slackwater.server.rest.query import OPERATIONS as _QUERY
from slackwater.server.rest.rows import OPERATIONS as _ROWS
from slackwater.server.rest.subscriptions import OPERATIONS as _SUBSCRIPTIONS
from slackwater.server.rest.tables import OPERATIONS as _TABLES

OPERATIONS: tuple[RestOperation, ...] = (*_HEALTH, *_TABLES, *_ROWS, *_QUERY, *_SUBSCRIPTIONS, *_JOINS, *_CACHES)
