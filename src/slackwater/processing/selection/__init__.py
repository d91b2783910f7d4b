"""Exact selections: every row that enters, changes in or leaves a region."""

from slackwater.processing.selection.operator import Selections

__all__ = ["Selections"]
