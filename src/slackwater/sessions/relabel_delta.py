"""Relabel delta: the facts that a client lacks after a label change of its cache, and no more.

Mathematics
    Under epoch e the client holds the rows of R, up to what is under way to it. The labels become R′ at a position p, a
    moment between two steps. Of the rows in R ∩ R′ it holds what was true at its last frame, and for each key that
    has changed since there is a fact it has not acknowledged. So with

        the present state, in R′ or not, of every key with an unacknowledged fact, and every row of R′ ∖ R,

    all as facts under the new epoch in one frame, it holds R′ as of p. A frame is applied whole or not at all: the
    label takes effect when its fill is complete. Facts are states, so the frame may be repeated, or be merged with what
    comes after it, like any other.

    This needs a client that goes from R to R′ at once. One that may not have heard of R, or of all its rows, is sent
    all rows of R′.
"""

from slackwater.core.errors import AlgebraError
from slackwater.dissemination.messages import Delete, Fact, Upsert
from slackwater.sessions.events import Engine
from slackwater.sessions.query_registry import RegisteredQuery
from slackwater.sessions.session import Session
from slackwater.sessions.wire import projected


def fill(session: Session, kept: RegisteredQuery, engine: Engine) -> list[Fact] | None:
    """Facts that a session lacks of a relabelled cache; None where the whole answer is to be sent."""
    query = kept.query
    if kept.former is None or kept.suspended is not None or query.pushed is None:
        return None
    former = kept.former[1]
    if former.pushed is None or former.columns != query.columns:
        return None
    unsure = session.unacknowledged(kept.number)
    if unsure is None or not all(session.certainly_knows(ref) for ref in session.references[kept.number]):
        return None
    try:
        lacking = query.pushed.subtract(former.pushed)
    except AlgebraError:
        return None
    schema = engine.schema(query.table)
    facts: dict[tuple[object, ...], Fact] = {key: Delete(kept.number, kept.epoch, key) for key in unsure}
    rows = engine.select(query.table, query.pushed if unsure else lacking)
    for key, row in zip(projected(rows, schema.key), projected(rows, query.columns), strict=True):
        if key in unsure or not unsure or lacking.contains(dict(zip(query.columns, row, strict=True)).get):
            facts[key] = Upsert(kept.number, kept.epoch, key, row)
    return list(facts.values())
