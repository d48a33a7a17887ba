"""The Python that will run the script has to have JAX and this package: looked at once, before anything is started."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pathways.cli.faults import Refusal

NOT_EXECUTABLE, NOT_FOUND = 126, 127
_TIMEOUT_S = 60.0
_PYTHON = re.compile(r"python(\d+(\.\d+)*)?[a-z]*")
# Written for any Python 3: the one that it looks at may be old. The current directory does not count as installed.
_LOOK = """
import json, sys
sys.path = [path for path in sys.path if path]
import importlib.util
found = {name: importlib.util.find_spec(name) is not None for name in ("jax", "pathways")}
try:
    from importlib.metadata import entry_points
    found["plugin"] = any(point.value == "pathways._plugin" for point in entry_points(group="jax_plugins"))
except Exception:
    found["plugin"] = False
found["version"] = "%d.%d.%d" % sys.version_info[:3]
print(json.dumps(found))
"""


def check_command(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raises Refusal if the command cannot run, or is a Python without JAX or without this package. Other programs may pass."""
    program = shutil.which(command[0], path=environment.get("PATH"))
    if program is None:
        file = Path(command[0])
        if file.suffix == ".py" and file.exists():
            raise Refusal(f"{file} is not executable; write `pathways run -- python {file}`", NOT_EXECUTABLE)
        raise Refusal(f"there is no program {command[0]!r}; write `pathways run -- python script.py`", NOT_FOUND)
    if not _PYTHON.fullmatch(Path(program).name):
        return
    try:
        answer = subprocess.run(
            [program, "-c", _LOOK],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(environment),
            timeout=_TIMEOUT_S,
            check=False,
        )
        found = json.loads(answer.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
        raise Refusal(f"{program} could not be asked what it has installed ({type(error).__name__}); does it run?") from None
    _check(program, found)


def _check(program: str, found: Mapping[str, object]) -> None:
    instead = f"run the script with {sys.executable}, or install it there"
    if not found.get("pathways") or not found.get("plugin"):
        raise Refusal(f"{program} (Python {found.get('version')}) has no package `pathways`: {instead} (pip install pathways)")
    if not found.get("jax"):
        raise Refusal(f"{program} (Python {found.get('version')}) has no package `jax`: {instead} (pip install jax)")
