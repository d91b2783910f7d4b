"""Tail recovery: the true end of the last segment; separates a torn write from a loss on disk."""

from slackwater.core.errors import LogCorrupt
from slackwater.core.types import Position
from slackwater.log.frame import BadFrame, find_heads, frames, stored
from slackwater.log.records import CATALOG_KINDS, decode
from slackwater.log.segment import Segment


def settle(segment: Segment, descriptor: int, length: int, promised: Position | None) -> int:
    """Let the segment grow over all readable frames from where it ended so far, up to `length` bytes.

    Returns how many bytes are left over.

    Whatever follows them may be an unfinished write. It is `LogCorrupt` instead if it was durable once: if a
    readable frame behind it says so (see *settled* in `frame`), or if the durable mark (`promised`) does.
    """
    try:
        for head, body in frames(descriptor, segment.size, length, segment.end, segment.header.salt):
            if head.kind in CATALOG_KINDS:
                segment.define(decode(stored(head, body)))
            segment.grow(head.first, head.offset, head.end, head.next_offset)
    except BadFrame as bad:
        for later in find_heads(descriptor, segment.size + 8, length, segment.header.salt):
            if later.settled > segment.end:
                raise bad.corrupt(segment.path.name) from None
        if promised is not None and promised > segment.end:
            raise bad.corrupt(segment.path.name) from None
    if promised is not None and promised > segment.end:
        raise LogCorrupt(
            f"{segment.path.name} ends at position {segment.end}, but everything before {promised} had been "
            f"written durably; put the file back from a copy, or see docs/log.md on accepting the loss"
        )
    return length - segment.size
