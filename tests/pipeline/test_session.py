"""The session: settings with reasons, and a package that ships itself."""

import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from slackwater.pipeline.session import packed
from slackwater.pipeline.settings import EVERYWHERE, LOCAL


def test_every_setting_is_set_once_with_its_reason_and_in_force(spark: SparkSession) -> None:
    names = [setting.name for setting in (*EVERYWHERE, *LOCAL)]
    assert len(names) == len(set(names))
    in_force = dict(spark.sparkContext.getConf().getAll())
    for setting in (*EVERYWHERE, *LOCAL):
        assert len(setting.why) > 20
        assert in_force[setting.name].endswith(setting.value)  # Spark puts options of its own before ours


def test_nothing_listens_to_the_outside(spark: SparkSession) -> None:
    assert dict(spark.sparkContext.getConf().getAll())["spark.driver.host"] == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None


def test_the_package_can_be_imported_from_its_zip_alone(tmp_path: Path) -> None:
    archive = packed(tmp_path)
    again = tmp_path / "again"
    again.mkdir()
    assert packed(again).read_bytes() == archive.read_bytes()
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r}); "
        "import slackwater, slackwater.admission, slackwater.pipeline.jobs.load; print(slackwater.__file__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.startswith(str(archive))
