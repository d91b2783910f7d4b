"""Machine code on disk: what was made with other kernels is not used."""

import shutil
import subprocess
import sys
from pathlib import Path

from slackwater.kernels import jit

_CALLEE = """
from {package}.jit import compiled
@compiled
def number():
    return {number}
"""
_CALLER = """
from {package}.callee import number
from {package}.jit import compiled
@compiled
def asked():
    return number()
"""
_ASK = "from {package}.caller import asked; print(asked(), sum(asked.stats.cache_hits.values()))"


def test_a_function_is_compiled_anew_when_one_that_it_calls_has_changed(tmp_path: Path) -> None:
    package = tmp_path / "loops"
    package.mkdir()
    shutil.copy(jit.__file__, package / "jit.py")
    (package / "caller.py").write_text(_CALLER.format(package="loops"))
    said = []
    for number in (1, 1, 2):
        (package / "callee.py").write_text(_CALLEE.format(package="loops", number=number))
        asked = [sys.executable, "-c", _ASK.format(package="loops")]
        said.append(subprocess.run(asked, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split())
    assert said == [["1", "0"], ["1", "1"], ["2", "0"]]
