"""Spark session factory: Java, Python, settings, and our own code on executors.

`local[N]` runs everything in one process and its Python workers, which import the package from the same
environment. On any other master the package ships itself: a zip of its modules is added to the session, so that
executors need the libraries (pyarrow, numpy, numba, msgspec) but not Slackwater.
"""

import atexit
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

import slackwater
from slackwater.pipeline.java import find_java
from slackwater.pipeline.settings import EVERYWHERE, LOCAL

_LOCAL = re.compile(r"local(\[.*\])?")
_ONE_MACHINE = re.compile(r"local(-cluster)?(\[.*\])?")


def build_session(
    master: str = "local[*]", name: str = "slackwater", extra: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a session on this master; `extra` settings win over ours.

    A process has one Spark at a time: a second call returns the session that is there.
    """
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    one_machine = _ONE_MACHINE.fullmatch(master) is not None
    if one_machine:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(master).appName(name)
    for setting in (*EVERYWHERE, *(LOCAL if one_machine else ())):
        builder = builder.config(setting.name, setting.value)
    for key, value in (extra or {}).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    if one_machine:
        _without_checksum_files(session)
    if not _LOCAL.fullmatch(master):
        # Executors fetch it when they start, which may be at any time: it stays for as long as this process.
        folder = tempfile.mkdtemp(prefix="slackwater-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        session.sparkContext.addPyFile(str(packed(Path(folder))))
    return session


def _without_checksum_files(session: SparkSession) -> None:
    """Have Hadoop write no `.crc` beside each file: it starts `chmod` as a process for every file it makes.

    There is no setting for it; the file system is one object for the whole process.
    """
    java = session._jvm
    assert java is not None
    files = java.org.apache.hadoop.fs.FileSystem.get(java.java.net.URI("file:///"), session._jsc.hadoopConfiguration())
    files.setWriteChecksum(False)


def packed(folder: Path) -> Path:
    """Write this package as a zip that Python can import from; the same sources give the same bytes."""
    root = Path(slackwater.__file__).parent
    path = folder / "slackwater.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for module in sorted(root.rglob("*.py")):
            entry = zipfile.ZipInfo(str(Path(root.name) / module.relative_to(root)))
            archive.writestr(entry, module.read_bytes(), zipfile.ZIP_DEFLATED)
    return path
