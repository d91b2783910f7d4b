"""What every host of operators does alike: the log cut into steps, and what a host in another process says of them.

`engine` turns the records of a log into steps, `publication` and `said` carry the steps of a host that runs elsewhere,
`replica` is what has been said so far.
"""
