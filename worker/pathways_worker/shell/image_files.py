"""Images of executables on disk, which outlive their daemon: one folder, which all workers of a machine may share.

A file is named by the image's key and its compiler, and begins with a code that only holders of the cluster's secret can make: an
image is code, and bytes that somebody else put there are not loaded. Files are written aside and renamed, so that a reader sees
all of one or none. All methods but `has` wait for the disk: call them on a thread.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import shutil
import threading
import time
from pathlib import Path

from pathways_worker.shell.spill_files import LEFT_FREE_BYTES, Broken

_MAGIC = b"pathways image 1\n"
_CODE_BYTES = hashlib.sha256().digest_size
_SUFFIX = ".image"
_NEW = ".new"
# A writer that takes longer was killed.
_ABANDONED_S = 600.0


class ImageFolder:
    """At most `bytes_max` in files below `path`; the longest unused are removed first. `secret` is the cluster's."""

    def __init__(self, path: Path, secret: str, bytes_max: int) -> None:
        self.path = path
        self._bytes_max = bytes_max
        self._secret = hashlib.sha256(b"pathways images\n" + secret.encode()).digest()
        self._writing = threading.Lock()

    def has(self, key: str, compiler: str) -> bool:
        """Whether there is a file; what is in it is another matter."""
        return self._file(key, compiler).exists()

    def read(self, key: str, compiler: str) -> bytes:
        """The image; raises Broken with the reason why there is none to be had."""
        path = self._file(key, compiler)
        try:
            content = path.read_bytes()
            os.utime(path)  # used now
        except OSError as error:
            raise Broken(f"{path} cannot be read ({error.strerror})") from error
        head = len(_MAGIC) + _CODE_BYTES
        data = content[head:]
        if content[: len(_MAGIC)] != _MAGIC or not hmac.compare_digest(
            content[len(_MAGIC) : head], self._code(key, compiler, data)
        ):
            raise Broken(f"{path} was not written by a worker of this cluster, or not as it is now")
        return data

    def write(self, key: str, compiler: str, image: bytes) -> None:
        """Keeps an image, and makes room for it; raises OSError. One that is larger than the folder may be is left out."""
        size_bytes = len(_MAGIC) + _CODE_BYTES + len(image)
        if size_bytes > self._bytes_max:
            return
        with self._writing:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            free_bytes = shutil.disk_usage(self.path).free
            if free_bytes < size_bytes + LEFT_FREE_BYTES:
                raise OSError(f"{free_bytes} bytes are free there, of which {LEFT_FREE_BYTES} are left to others")
            self._make_room(size_bytes)
            path = self._file(key, compiler)
            aside = path.with_name(f"{path.stem}.{os.getpid()}{_NEW}")
            try:
                with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as stream:
                    stream.write(_MAGIC + self._code(key, compiler, image) + image)
                aside.replace(path)
            except OSError:
                aside.unlink(missing_ok=True)
                raise

    def erase(self, key: str, compiler: str) -> None:
        """Removes a file that is of no use; raises OSError."""
        self._file(key, compiler).unlink(missing_ok=True)

    def _make_room(self, wanted_bytes: int) -> None:
        found = []
        for entry in os.scandir(self.path):
            try:
                figures = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # another worker makes room, too
                continue
            if entry.name.endswith(_SUFFIX):
                found.append((figures.st_mtime_ns, figures.st_size, entry.path))
            elif entry.name.endswith(_NEW) and figures.st_mtime < time.time() - _ABANDONED_S:
                Path(entry.path).unlink(missing_ok=True)
        found.sort()
        held_bytes = sum(size_bytes for _, size_bytes, _ in found)
        for _, size_bytes, path in found:
            if held_bytes + wanted_bytes <= self._bytes_max:
                return
            Path(path).unlink(missing_ok=True)
            held_bytes -= size_bytes

    def _file(self, key: str, compiler: str) -> Path:
        return self.path / (hashlib.sha256(_named(key, compiler)).hexdigest() + _SUFFIX)

    def _code(self, key: str, compiler: str, data: bytes) -> bytes:
        return hmac.digest(self._secret, hashlib.sha256(_named(key, compiler)).digest() + data, "sha256")


def _named(key: str, compiler: str) -> bytes:
    return f"{len(key)}\n{key}\n{compiler}".encode()
