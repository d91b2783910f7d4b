"""What may enter: rows as they came → accepted, quarantined, repeats. Pure functions, used by every way in."""

from slackwater.admission.admit import Admission, admit
from slackwater.admission.limits import Limits
from slackwater.admission.reasons import Reason
from slackwater.admission.seen import Seen

__all__ = ["Admission", "Limits", "Reason", "Seen", "admit"]
