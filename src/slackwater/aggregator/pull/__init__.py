"""Pulled sources: items requested as rarely as the bounds of their queries allow."""
