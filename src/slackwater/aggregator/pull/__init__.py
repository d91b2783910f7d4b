"""Pulled sources: items asked for as rarely as the bounds of their queries allow."""
