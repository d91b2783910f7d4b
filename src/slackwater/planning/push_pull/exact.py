"""Exact labelling: the line algorithm where the workload allows it, else the minimum cut."""

from slackwater.planning.push_pull.base import Labelling, Workload
from slackwater.planning.push_pull.cut import exact_by_cut
from slackwater.planning.push_pull.line import exact_on_a_line


def exact(workload: Workload) -> Labelling:
    """Label at the least cost."""
    return exact_on_a_line(workload) if workload.line else exact_by_cut(workload)
