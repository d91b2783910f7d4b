"""Make the project's own virtual environment: `python3 tools/bootstrap.py`.

Uses the standard library only, because it runs before anything is installed. It needs a Python of 3.11 or
newer and a package index that pip can reach. Running it again does nothing unless the pinned requirements,
pyproject.toml or the interpreter changed.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
REQUIREMENTS = ROOT / "requirements" / "dev.txt"
STAMP = ENVIRONMENT / "slackwater-ready"
OLDEST = (3, 11)

NO_PIP = """\
This Python ({python}) can neither make an environment with pip in it (ensurepip is missing) nor offers pip
itself. Get one of the two and run make again, for example:
    Debian, Ubuntu:   apt-get install python3-venv
    Fedora:           dnf install python3-pip
"""


def fingerprint() -> str:
    """Everything that makes an existing environment out of date."""
    digest = hashlib.sha256(sys.version.encode())
    for path in (REQUIREMENTS, ROOT / "pyproject.toml", Path(__file__)):
        digest.update(path.read_bytes())
    digest.update(str(ROOT).encode())
    return digest.hexdigest()


def run(*command: str) -> None:
    """Run one step, and end with its exit code if it fails."""
    done = subprocess.run(command, cwd=ROOT, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def create() -> list[str]:
    """Create an empty environment and return the command that runs pip for it."""
    if ENVIRONMENT.exists():
        shutil.rmtree(ENVIRONMENT)
    python = str(ENVIRONMENT / "bin" / "python")
    try:
        import ensurepip  # noqa: F401  Debian ships it apart
    except ImportError:
        pip_here = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False)
        if pip_here.returncode:
            sys.exit(NO_PIP.format(python=sys.executable))
        venv.create(ENVIRONMENT, with_pip=False, symlinks=True)
        # A pip outside can install into an environment that has none.
        run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "pip")
    else:
        venv.create(ENVIRONMENT, with_pip=True, symlinks=True)
    return [python, "-m", "pip", "--disable-pip-version-check"]


def main() -> None:
    """Bring the environment up to date, or leave it alone when it already is."""
    if sys.version_info < OLDEST:
        found = ".".join(map(str, sys.version_info[:3]))
        sys.exit(f"Slackwater needs Python 3.11 or newer; this is {found}. Try: make PYTHON=python3.12 test")
    wanted = fingerprint()
    if STAMP.exists() and STAMP.read_text() == wanted:
        return
    os.environ.pop("PYTHONPATH", None)
    os.environ.pop("PYTHONHOME", None)
    print("Setting up .venv (once; a few minutes, depending on the package index)", flush=True)
    pip = create()
    run(*pip, "install", "--quiet", "--requirement", str(REQUIREMENTS))
    run(*pip, "install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    STAMP.write_text(wanted)


if __name__ == "__main__":
    main()
