"""Where results go and what is written beside them."""

import json
import platform
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def write(name: str, figures: dict[str, Any]) -> None:
    """Write the figures of one benchmark and show them; the machine is told by its kind only."""
    report = {"machine": f"{platform.machine()}, Python {platform.python_version()}", **figures}
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(report, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n")
    print(text)
