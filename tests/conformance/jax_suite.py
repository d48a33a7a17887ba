"""Runs JAX's own tests on a cluster and on plain local JAX, and says which of those that pass locally do not pass there.

They are not in JAX's package: `--jax-tests` names a checkout of JAX's repository at the tag of the installed version, which is
checked. The exit code is 1 if anything is not as expected. How files are run: suites.py.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import jax

from tests.conformance import suites

FILES = (
    "array_test", "api_test", "pjit_test", "shard_map_test", "pmap_test", "lax_control_flow_test", "random_test",
    "multi_device_test", "python_callback_test", "colocated_python_test", "memories_test", "layout_test",
    "debugging_primitives_test", "lax_test", "lax_numpy_test",
)  # fmt: skip


def tests_of(checkout: Path) -> Path:
    """The folder of tests of a checkout of the installed version; SystemExit says what is wrong."""
    version = checkout / "jax" / "version.py"
    if not version.is_file() or not (checkout / "tests").is_dir():
        raise SystemExit(f"{checkout} is no checkout of JAX: it has no jax/version.py or no tests; name the repository's root")
    found = re.search(r'^_version = "([^"]+)"', version.read_text(), re.MULTILINE)
    told = found.group(1) if found else "unknown"
    if told != jax.__version__:
        raise SystemExit(f"{checkout} is JAX {told} and {jax.__version__} is installed; check out the tag jax-v{jax.__version__}")
    return checkout / "tests"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = suites.parser_of(__doc__, "1x1x8", "jax_suite")
    parser.add_argument("files", nargs="*", default=FILES, help="names of test files without .py (default: those of the issue)")
    parser.add_argument(
        "--jax-tests", type=Path, required=True, metavar="PATH", help="a checkout of JAX at the installed version"
    )
    options = parser.parse_args(arguments)
    tests = tests_of(options.jax_tests.resolve())
    with tempfile.TemporaryDirectory(prefix="pathways-jax-tests-") as folder:
        # Apart from the checkout, whose own jax must not be found.
        copied = Path(shutil.copytree(tests, Path(folder) / "tests"))
        return suites.run({name: copied / f"{name}.py" for name in options.files}, options)


if __name__ == "__main__":
    sys.exit(main())
