"""`python -m benchmarks [name …]`: run all measurements, or those named."""

import importlib
import pkgutil
import sys

import benchmarks


def main() -> None:
    """Run the measurements one after the other; they would disturb each other side by side."""
    apart = {"__main__", "bus", "measured_server", "report"}
    names = sorted({module.name for module in pkgutil.iter_modules(benchmarks.__path__)} - apart)
    for name in sys.argv[1:] or names:
        if name not in names:
            sys.exit(f"there is no benchmark {name!r}; there are {', '.join(names)}")
        print(f"── {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
