"""After a rehearsal joins are matched without anything being compiled; in a process where nothing is compiled yet."""

import importlib
import pkgutil
import subprocess
import sys

import slackwater.kernels
from slackwater.processing.joined.warm_up import rehearse
from tests.support.join_world import World


def compiled() -> set[tuple[str, str]]:
    """Every kernel that is compiled in this process, with the types that it is compiled for."""
    found = set()
    for module in pkgutil.iter_modules(slackwater.kernels.__path__, "slackwater.kernels."):
        for name, kernel in vars(importlib.import_module(module.name)).items():
            for signature in getattr(kernel, "signatures", ()):
                found.add((f"{kernel.__module__}.{name}", str(signature)))
    return found


def live(world: World, steps: int) -> None:
    """Rows and joins come and go."""
    for step in range(steps):
        (world.rows, world.register, world.rows, world.unregister)[step % 4 if step % 8 else 1]()


def main() -> None:
    worlds = [World(seed) for seed in range(4)]
    for world in worlds:
        world.rows()
    if sys.argv[1] == "rehearsed":
        rehearse()
    before = compiled()
    for world in worlds:
        live(world, 60)
    print(*sorted(name for name, _ in compiled() - before))


def test_nothing_is_left_to_compile() -> None:
    for how, nothing in (("rehearsed", True), ("unrehearsed", False)):
        command = [sys.executable, "-m", "tests.processing.joined.test_warm_up", how]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        assert (not done.stdout.strip()) == nothing, done.stdout


if __name__ == "__main__":
    main()
