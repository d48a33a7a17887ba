"""Versions of the two ends of a stream fit if major and minor are the same; an end that says none is taken at its word."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from pathways_common.model.failure import Failure, Reason

PROTOCOL_VERSION = "pathways.v1"


def pathways_version() -> str:
    """The installed version of this project."""
    try:
        return version("pathways")
    except PackageNotFoundError:
        return "0.0.0"


def mismatch(mine: str, other: str, other_name: str) -> Failure | None:
    """The refusal of a peer with version `other`; None if the two fit."""
    if not other or mine.split(".")[:2] == other.split(".")[:2]:
        return None
    return Failure(
        Reason.VERSION_MISMATCH,
        f"the {other_name} has pathways {other} and the controller has {mine}: install the same version on both sides",
        metadata={"mine": mine, "other": other, "other_name": other_name},
    )
