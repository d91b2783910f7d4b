"""Admission control for rows: accepted, quarantined or duplicate, by pure functions that every ingest path uses."""

from slackwater.admission.admit import admit
from slackwater.admission.deduplication import Seen
from slackwater.admission.fast_path import admit_run
from slackwater.admission.limits import Limits
from slackwater.admission.outcome import Admission, RunAdmission
from slackwater.admission.reasons import Reason

__all__ = ["Admission", "Limits", "Reason", "RunAdmission", "Seen", "admit", "admit_run"]
