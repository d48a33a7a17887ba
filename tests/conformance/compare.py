"""Compares two encoded results. Equal means equal bits, except where units in the last place are allowed."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np


def _array(value: dict[str, Any]) -> np.ndarray:
    dtype = np.dtype(getattr(ml_dtypes, value["dtype"], None) or value["dtype"])
    return np.frombuffer(bytes.fromhex(value["bytes"]), dtype).reshape(value["shape"])


def ulps_apart(left: np.ndarray, right: np.ndarray) -> float:
    """The largest distance in units in the last place of the expected value; infinite for other kinds of number."""
    if left.dtype.kind == "c":
        return max(ulps_apart(left.real, right.real), ulps_apart(left.imag, right.imag))
    if left.dtype.kind != "f":
        return float("inf")
    with np.errstate(invalid="ignore"):
        apart = np.abs(left - right) / np.spacing(np.maximum(np.abs(left), np.finfo(left.dtype).tiny))
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    return float(np.max(np.where(same, 0, np.where(np.isnan(apart), np.inf, apart)), initial=0))


def differences(expected: Any, got: Any, ulps_max: int, path: str = "") -> list[str]:
    """What differs, each with its place in the tree; empty when nothing does."""
    place = path or "result"
    if isinstance(expected, dict) and isinstance(got, dict) and "bytes" in expected and "bytes" in got:
        for field in ("dtype", "shape"):
            if expected[field] != got[field]:
                return [f"{place}: {field} is {got[field]}, expected {expected[field]}"]
        if expected["bytes"] == got["bytes"]:
            return []
        left, right = _array(expected), _array(got)
        if ulps_max and ulps_apart(left, right) <= ulps_max:
            return []
        return [f"{place}: {right.ravel()[:4]}... differs from {left.ravel()[:4]}... by {ulps_apart(left, right):.3g} ulps"]
    if isinstance(expected, dict) and isinstance(got, dict) and expected.keys() == got.keys():
        return [line for key in expected for line in differences(expected[key], got[key], ulps_max, f"{path}/{key}")]
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        pairs = enumerate(zip(expected, got, strict=True))
        return [line for index, (a, b) in pairs for line in differences(a, b, ulps_max, f"{path}[{index}]")]
    return [] if expected == got else [f"{place}: got {str(got)[:300]}, expected {str(expected)[:300]}"]
