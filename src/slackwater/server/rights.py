"""Enforcement of row-level rights in a node: durable grants, and registrations brought under them by new epochs."""

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from slackwater.core.errors import LogError, SlackwaterError
from slackwater.core.region import Region
from slackwater.core.rights import Rights
from slackwater.core.types import Position
from slackwater.kinds.checks import check_region
from slackwater.log import Registered, Unregistered
from slackwater.sessions.events import RightsChanged

if TYPE_CHECKING:
    from slackwater.server.node import Node

_NOT_YET = Position(2**62)
_RETRY_SECONDS = 0.5
_report = logging.getLogger("slackwater.server")


class NodeRights:
    """The rights of all principals: kept by the store, applied by the registrar."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        node.registrar.rights = node.store.rights()

    async def grant(self, principal: str, table: str, region: Region) -> None:
        """Let a principal see these rows of a table alone; EVERYTHING takes a restriction back.

        It is durable before it takes effect. Live subscribers of the principal are told by a new epoch of what they
        subscribe to; when this returns that is in the log, and was applied here.
        """
        node, registrar = self._node, self._node.registrar
        schema = next((one for name, one in node.engine.tables.items() if name.lower() == table.lower()), None)
        if schema is not None:
            # What could not be bound under it would be ended.
            check_region(region, schema)
        _, end = await node.log_span()
        node.store.grant(principal, table, region, max(end, node.engine.position))
        registrar.rights = self._rights(principal, _NOT_YET if node.writable else Position(-1))
        for lane in node.lanes.values():
            lane.sessions.handle(RightsChanged(principal))
        if node.writable:
            await self._apply()
            # Until here sessions of the principal were sent rows under its former grant, with later positions.
            registrar.rights = self._rights(principal, node.engine.position)

    def _rights(self, principal: str, until: Position) -> Rights:
        """The rights in the store, with a principal's in force everywhere from a position on."""
        rights, former = self._node.store.rights(), self._node.registrar.rights
        changed = {who: max(at, former.since(who)) for who, at in rights.changed.items() if who != principal}
        return replace(rights, changed=changed | {principal: max(until, rights.since(principal))})

    async def begin(self) -> None:
        """Bring registrations under rights that changed while the node was down, however long the log takes for it."""
        while True:
            try:
                return await self._apply()
            except SlackwaterError as error:
                _report.warning("registrations are not under the present rights yet: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _apply(self) -> None:
        """Bring all registrations under the present rights of their owners.

        A plan or a label that is under way may come first under the same epoch: then it is asked for once more. A
        record that was passed over would be for ever: its registration is ended.
        """
        node = self._node
        position = await node.change(lambda target: target.log.end)
        former: list[Registered | Unregistered] = []
        while await node.reached(position, node.settings.limits.wait_seconds):
            records = node.registrar.outdated()
            if not records:
                return
            asked = {(one.number, one.epoch) for one in former if isinstance(one, Registered)}
            records = former = [
                Unregistered(one.table, one.number)
                if isinstance(one, Registered) and one.number is not None and (one.number, one.epoch) in asked
                else one
                for one in records
            ]
            position = await node.change(lambda target, made=records: target.log.append(made), len(records))  # type: ignore[misc]
        raise LogError("the rights are in force for new queries; those that stand follow when the log is read on")
