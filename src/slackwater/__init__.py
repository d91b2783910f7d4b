"""Standing queries over fast-changing data, each within the error its user allows, with the fewest messages."""

__version__ = "0.1.0"
