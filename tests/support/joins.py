"""Access to the join operator of a host, for white-box tests."""

from collections.abc import Mapping

from slackwater.processing.host import Host
from slackwater.processing.joined import Family, FamilyShape, StandingJoins, joins_of


def joins(host: Host) -> StandingJoins:
    """The operator."""
    return joins_of(host.operators)


def families(host: Host) -> Mapping[FamilyShape, Family]:
    """The families of its joins."""
    return joins(host).founded(host.latest_tables)
