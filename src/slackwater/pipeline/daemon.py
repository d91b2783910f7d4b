"""Python worker daemon of Spark, without the noise when a session ends.

A worker that waits for work when its session stops has lost its driver. Spark's own starter prints that as a
traceback, though nothing is wrong. Run by Spark as `python -m slackwater.pipeline.daemon`.
"""

import os
from socket import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket, authenticated: bool) -> int:
    """Serve one task after the other; exit quietly when the driver is gone."""
    try:
        return int(_worker(sock, authenticated))
    except BrokenPipeError:
        os._exit(0)


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
