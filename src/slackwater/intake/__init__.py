"""Intake: source → admission → log, with durable deduplication state."""

from slackwater.intake.intake import MEMORY_FILE, Intake, RowsRequest
from slackwater.intake.receipt import IntakeReceipt, Promises
from slackwater.intake.request_keys import RequestKeyReused, TooManyRequestKeys

__all__ = [
    "MEMORY_FILE",
    "Intake",
    "IntakeReceipt",
    "Promises",
    "RequestKeyReused",
    "RowsRequest",
    "TooManyRequestKeys",
]
