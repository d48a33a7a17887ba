"""The state directory of one cluster on one machine, and how tools find a cluster and its token.

Everything in it is readable by its owner alone. `cluster.json` is replaced whole, so a reader never sees half of it.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from pathways_common.model.failure import Reason, fail


class StateDir:
    """Paths and small files below one directory; nothing is written before `create`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).expanduser().absolute()

    def create(self) -> None:
        """Makes the directory (0700), `logs`, and, unless they exist, `token` and `secret` (0600)."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.path / "logs").mkdir(mode=0o700, exist_ok=True)
            for name in ("token", "secret"):
                _create_secret(self.path / name)
        except OSError as error:
            raise fail(
                Reason.INVALID_ARGUMENT,
                f"the state directory {self.path} cannot be used ({error.strerror}); choose another with --state-dir",
                path=self.path,
            ) from error

    def token(self) -> str:
        """The token of clients; raises PathwaysError (UNAUTHENTICATED) if there is none."""
        return self._read_secret("token")

    def secret(self) -> str:
        """The cluster secret of workers; raises PathwaysError (UNAUTHENTICATED) if there is none."""
        return self._read_secret("secret")

    def _read_secret(self, name: str) -> str:
        path = self.path / name
        text = _read_line(path)
        if not text:
            raise fail(
                Reason.UNAUTHENTICATED, f"there is no {name} in {path}; start a controller on this state directory", path=path
            )
        return text

    def log_path(self, name: str) -> Path:
        """Where the process `name` logs."""
        return self.path / "logs" / f"{name}.log"

    def write_cluster(self, cluster: dict[str, Any]) -> None:
        """Replaces cluster.json."""
        path = self.path / "cluster.json"
        temporary = path.with_suffix(f".{os.getpid()}.new")
        temporary.write_text(json.dumps(cluster, indent=1) + "\n")
        temporary.chmod(0o600)
        temporary.replace(path)

    def read_cluster(self) -> dict[str, Any] | None:
        """What cluster.json says; None if there is none or it is not ours."""
        try:
            cluster = json.loads((self.path / "cluster.json").read_text())
        except (OSError, ValueError):
            return None
        return cluster if isinstance(cluster, dict) else None

    def remove_cluster(self) -> None:
        """Forgets the cluster; nothing happens if there is none."""
        (self.path / "cluster.json").unlink(missing_ok=True)


def default_state_dir() -> StateDir:
    """$PATHWAYS_STATE_DIR, else $XDG_STATE_HOME/pathways, else ~/.local/state/pathways."""
    explicit = os.environ.get("PATHWAYS_STATE_DIR")
    if explicit:
        return StateDir(explicit)
    home = os.environ.get("XDG_STATE_HOME")
    return StateDir(Path(home) / "pathways" if home else Path("~/.local/state/pathways"))


def find_token(state: StateDir | None = None) -> str | None:
    """$PATHWAYS_TOKEN, else the file $PATHWAYS_TOKEN_FILE, else the state directory's token, else None.

    Raises PathwaysError (UNAUTHENTICATED) if PATHWAYS_TOKEN_FILE names a file that cannot be read.
    """
    token = os.environ.get("PATHWAYS_TOKEN", "").strip()
    if token:
        return token
    file = os.environ.get("PATHWAYS_TOKEN_FILE")
    if file:
        text = _read_line(Path(file).expanduser())
        if not text:
            raise fail(Reason.UNAUTHENTICATED, f"PATHWAYS_TOKEN_FILE names {file}, which holds no readable token", path=file)
        return text
    return _read_line((state or default_state_dir()).path / "token") or None


def find_address(explicit: str | None, state: StateDir | None = None) -> str:
    """The argument, else $PATHWAYS_ADDRESS, else the address in the state directory's cluster.json.

    Raises PathwaysError (INVALID_ARGUMENT) if none of them says anything.
    """
    address = explicit or os.environ.get("PATHWAYS_ADDRESS")
    if address:
        return address
    directory = state or default_state_dir()
    known = (directory.read_cluster() or {}).get("address")
    if isinstance(known, str) and known:
        return known
    raise fail(
        Reason.INVALID_ARGUMENT,
        f"no cluster is known in {directory.path}: give an address, set PATHWAYS_ADDRESS, or run `pathways up`",
        path=directory.path,
    )


def _read_line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return ""


def _create_secret(path: Path) -> None:
    """Writes a random secret unless the file exists; whole or not at all, also with two writers."""
    if path.exists():
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(secrets.token_urlsafe(32) + "\n")
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
