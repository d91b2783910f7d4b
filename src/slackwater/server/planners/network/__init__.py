"""Planning sums over a network of aggregators; `base` has the contract."""
