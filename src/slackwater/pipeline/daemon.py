"""Spark's own starter of Python workers, without the noise when a session ends.

A worker that waits for work when its session stops finds nobody to answer to. Spark's own starter prints that as a
traceback, though nothing is wrong. Run by Spark as `python -m slackwater.pipeline.daemon`.
"""

import os
from socket import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket, authenticated: bool) -> int:
    """Serve one task after the other; leave quietly when there is nobody left to serve."""
    try:
        return int(_worker(sock, authenticated))
    except BrokenPipeError:
        os._exit(0)


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
