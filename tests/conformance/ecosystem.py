"""Runs one script per library of JAX's ecosystem on a cluster and on plain local JAX, and compares what they returned.

The scripts are in examples/ecosystem and know nothing of clusters. Results are equal bit by bit, or within the units in the last
place that a script states with its reason (`ULPS_MAX`); a script with `expected()` is compared with that. The libraries are those
of the optional dependencies `ecosystem` (`make ecosystem` installs them). The last line is `N passed, N failed`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.cluster import ROOT, end_on_sigterm, running_cluster
from tests.conformance.run import HOSTS_PER_ISLAND, Feature, compare_all, groups, need_local, one_beside, run_locally
from tests.conformance.side import load

SCRIPTS = ROOT / "examples" / "ecosystem"


def features(names: list[str]) -> list[Feature]:
    """The scripts of these names, all without any; exits with a sentence if a library is missing."""
    paths = [path for path in sorted(SCRIPTS.glob("*.py")) if not names or path.stem in names]
    try:
        return [Feature(path.stem, path, load(path)) for path in paths]
    except ModuleNotFoundError as error:
        sys.exit(f"the library {error.name} is missing; call `make ecosystem`, or install '.[ecosystem]'")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only these scripts")
    parser.add_argument("--local-only", action="store_true", help="no cluster: do the scripts run and repeat themselves")
    options = parser.parse_args()
    end_on_sigterm()
    wanted = features(options.names)
    with tempfile.TemporaryDirectory() as folder, one_beside() as beside:
        locally = [beside.submit(run_locally, need_local(group), Path(folder)) for group in groups(wanted)]
        if options.local_only:
            for coming in locally:
                coming.result()  # the second run uses the same file
            verdicts = compare_all(wanted, locally, None, Path(folder))
        else:
            with running_cluster(1, HOSTS_PER_ISLAND, 1) as cluster:
                verdicts = compare_all(wanted, locally, cluster, Path(folder))
    failed = sum(bool(problem) for problem in verdicts.values())
    print(f"{len(verdicts) - failed} passed, {failed} failed")
    return 1 if failed or not verdicts else 0


if __name__ == "__main__":
    raise SystemExit(main())
