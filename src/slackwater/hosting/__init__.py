"""Operator host: the log cut into steps, registrations, snapshots, and the publication log of remote hosts.

`engine` turns the records of a log into steps. `publication` and `publication_log` carry the steps of a host in another
process; `replica` holds its answers.
"""
