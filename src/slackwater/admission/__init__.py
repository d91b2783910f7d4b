"""Admission control for rows: accepted, quarantined or duplicate, by pure functions that every ingest path uses."""

from slackwater.admission.admit import Admission, admit
from slackwater.admission.deduplication import Seen
from slackwater.admission.limits import Limits
from slackwater.admission.reasons import Reason

__all__ = ["Admission", "Limits", "Reason", "Seen", "admit"]
