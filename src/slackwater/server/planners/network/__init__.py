"""Network planner: sums planned over a network of aggregators; `base` has the contract."""
