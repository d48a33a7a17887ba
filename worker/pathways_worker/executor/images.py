"""Images: what was compiled, as bytes, to be loaded again for other devices of the same kind, here or on another host.

An image begins with the name of the compiler that made it, and only an executor with the same one loads it. Nothing but executors
makes images: the bytes are code. Whatever is wrong with one costs a compilation and a line in the log, nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from pathways_worker.executor import runtime

# Larger ones are rare, and would hold up the launches behind them for longer than is good.
IMAGE_BYTES_MAX = 32 << 20
_SEPARATOR = b"\n"


def make_image(machine: runtime.Runtime, executable: runtime.LoadedExecutable, program_bytes: int) -> bytes:
    """The image of what was compiled here of a program of that size; empty if it cannot be had or is too large."""
    if program_bytes > IMAGE_BYTES_MAX:
        # Its constants are in the image as well, and while that is written nobody else has the interpreter.
        _say(f"of a program of {program_bytes} bytes no image is made; the most is {IMAGE_BYTES_MAX}")
        return b""
    try:
        data = machine.serialize(executable)
    except Exception as error:
        # Not every runtime can: every load is then a compilation, as it would be without images.
        _say(f"an executable has no image: {error}")
        return b""
    image = machine.compiler.encode() + _SEPARATOR + data
    if len(image) > IMAGE_BYTES_MAX:
        _say(f"an image of {len(image)} bytes is not kept; the most is {IMAGE_BYTES_MAX}")
        return b""
    return image


def load_image(
    machine: runtime.Runtime, image: bytes, devices: Sequence[runtime.Device], options: Any
) -> runtime.LoadedExecutable | None:
    """The executable of an image on these devices; None if it has to be compiled."""
    compiler, _, data = image.partition(_SEPARATOR)
    if compiler.decode(errors="replace") != machine.compiler:
        _say("an image was made by another compiler; the program is compiled here")
        return None
    try:
        return machine.deserialize(data, devices, options)
    except Exception as error:
        _say(f"an image could not be loaded; the program is compiled here: {error}")
        return None


def _say(sentence: str) -> None:
    print(" ".join(sentence.split()), file=sys.stderr, flush=True)
