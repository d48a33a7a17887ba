"""Clients with each jaxlib that is served, against one cluster, each in a virtual environment of its own; others are refused.

The scripts are those of `make conformance`, and every result is compared with plain local JAX of the same version. What cannot be
is in `compat_verdicts.py` with its reason. Environments are made by pip under build/compat and used again.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pathways_common.model.jaxlibs import CLIENT_JAXLIBS, WORKER_JAXLIB

from tests.cluster import ROOT, Cluster, end_on_sigterm, running_cluster
from tests.conformance.compat_verdicts import EXPECTED, ULPS_OTHER_COMPILER, Row, left_out, refused_row, served_row, table
from tests.conformance.run import (
    FEATURES,
    HOSTS_PER_ISLAND,
    ISLANDS,
    Feature,
    compare_all,
    groups,
    need_local,
    one_beside,
    run_locally,
)
from tests.conformance.side import load

# The newest that is not served any more.
REFUSED = ("0.7",)
ENVIRONMENTS = ROOT / "build" / "compat"
INSTALL_TIMEOUT_S = 900.0
FIRST_CALL = "import jax; print(len(jax.devices()))"


def requirements(version: str) -> list[str]:
    """What pip installs for clients of this version of jaxlib: our dependencies, with this JAX instead of the hosts'."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    others = [each for each in project["dependencies"] if not each.startswith("jax")]
    return [*others, f"jax=={version}.*", f"jaxlib=={version}.*"]


def pins() -> str:
    """The project's own pins, but for what belongs to JAX."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return "\n".join(line for line in lines if line.split("==")[0] not in ("jax", "jaxlib", "ml_dtypes", "numpy", "scipy"))


def environment_of(version: str) -> Path:
    """The interpreter of a virtual environment with this jaxlib and the project; made if it is not there yet."""
    folder = ENVIRONMENTS / version
    python, stamp = folder / "bin" / "python", folder / ".installed"
    wanted = hashlib.sha256("\n".join([*requirements(version), pins(), str(ROOT)]).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    constraints = folder.parent / f"constraints-{version}.txt"
    constraints.write_text(pins())
    print(f"installing jaxlib {version} into {folder.relative_to(ROOT)}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=INSTALL_TIMEOUT_S)
    install = [str(python), "-m", "pip", "install", "--quiet", "--constraint", str(constraints)]
    if version in REFUSED:
        subprocess.run([*install, *requirements(version)], check=True, timeout=INSTALL_TIMEOUT_S)
        subprocess.run([*install, "--no-deps", "--editable", str(ROOT)], check=True, timeout=INSTALL_TIMEOUT_S)
    else:
        words = [each for each in requirements(version) if each.startswith("jax")]
        subprocess.run([*install, "--editable", str(ROOT), *words], check=True, timeout=INSTALL_TIMEOUT_S)
    stamp.write_text(wanted)
    return python


def installed(python: Path) -> str:
    """The exact version of jaxlib there."""
    words = [str(python), "-c", "import jaxlib; print(jaxlib.__version__)"]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def features() -> list[Feature]:
    """Every script but those that need what is not installed there."""
    paths = [path for path in sorted(FEATURES.glob("*.py")) if path.stem not in left_out()]
    return [Feature(path.stem, path, load(path)) for path in paths]


class OtherCompiler(Feature):
    """A script whose local results are those of an older compiler."""

    @property
    def ulps_max(self) -> int:
        return max(super().ulps_max, ULPS_OTHER_COMPILER)


def try_served(version: str, python: Path, cluster: Cluster, wanted: list[Feature], folder: Path) -> Row:
    """All scripts with this version, on the cluster and locally."""
    cluster.python = str(python)
    if version != WORKER_JAXLIB:
        wanted = [OtherCompiler(each.name, each.path, each.module) for each in wanted]
    with one_beside() as beside:
        locally = [beside.submit(run_locally, need_local(group), folder, str(python)) for group in groups(wanted)]
        verdicts = compare_all(wanted, locally, cluster, folder)
    return served_row(installed(python), verdicts, EXPECTED.get(version, {}))


def try_refused(python: Path, cluster: Cluster) -> Row:
    """A first call with this version."""
    cluster.python = str(python)
    done = cluster.run("-c", FIRST_CALL)
    return refused_row(installed(python), done.returncode, done.stdout, done.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=f"of {', '.join((*REFUSED, *CLIENT_JAXLIBS))}; else all")
    versions = parser.parse_args().versions or [*REFUSED, *CLIENT_JAXLIBS]
    if strange := set(versions) - {*REFUSED, *CLIENT_JAXLIBS}:
        parser.error(f"{', '.join(sorted(strange))} is neither served nor tried")
    end_on_sigterm()
    os.environ["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    pythons = {version: environment_of(version) for version in versions}
    wanted, rows = features(), []
    with tempfile.TemporaryDirectory() as folder, running_cluster(ISLANDS, HOSTS_PER_ISLAND, 1) as cluster:
        for version, python in pythons.items():
            print(f"--- jaxlib {installed(python)}", flush=True)
            served = version in CLIENT_JAXLIBS
            rows.append(try_served(version, python, cluster, wanted, Path(folder)) if served else try_refused(python, cluster))
    print(table(rows))
    problems = [f"{row.jaxlib}: {problem}" for row in rows for problem in row.problems]
    print("\n".join(problems) or "nothing unexpected")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
