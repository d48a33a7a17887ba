"""Runs the tests that libraries ship in their packages on a cluster and on plain local JAX; see suites.py.

A library is given by the name it is imported by. The exit code is 1 if anything is not as expected.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.conformance import suites

# Those of the extra "ecosystem" that ship any and compute with JAX in them.
LIBRARIES = ("optax", "rax")


def files_of(library: str) -> Mapping[str, Path]:
    """Its files of tests, by their path within the package; SystemExit says if there are none."""
    spec = importlib.util.find_spec(library)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{library} is not installed; install it beside this project, or the extra 'ecosystem'")
    root = Path(next(iter(spec.submodule_search_locations)))
    found = sorted({*root.rglob("*_test.py"), *root.rglob("test_*.py")})
    if not found:
        raise SystemExit(f"the package of {library} has no tests in it")
    return {".".join((library, *file.relative_to(root).with_suffix("").parts)): file for file in found}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = suites.parser_of(__doc__, "1x1x1", "library_suites")
    parser.add_argument("libraries", nargs="*", default=LIBRARIES, help=f"what they are imported as (default: {LIBRARIES})")
    parser.add_argument("--only", default="", metavar="TEXT", help="only files with this in their name, such as alias_test")
    options: argparse.Namespace = parser.parse_args(arguments)
    files = {name: file for each in options.libraries for name, file in files_of(each).items() if options.only in name}
    return suites.run(files, options)


if __name__ == "__main__":
    sys.exit(main())
