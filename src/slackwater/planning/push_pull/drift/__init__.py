"""Labels that follow a workload which changes: when to label anew, over what, and what the change itself costs."""
