"""docs/api.md is what the comments of the public sources say, and every public operation is in it."""

from __future__ import annotations

import re
import subprocess
import sys

from pathways_proto.v1 import sessions_pb2

from tests.tidy.tree import ROOT


def test_the_document_is_what_the_sources_give() -> None:
    command = [sys.executable, "proto/document.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_every_link_inside_the_document_has_its_heading() -> None:
    text = (ROOT / "docs/api.md").read_text()
    headings = {heading.lower() for heading in re.findall(r"^### (\w+)$", text, re.M)}
    assert {target for target in re.findall(r"\]\(#(\w+)\)", text) if target not in headings} == set()


def test_every_operation_is_explained() -> None:
    text = (ROOT / "docs/api.md").read_text()
    for message in (sessions_pb2.ClientOperation, sessions_pb2.ServerOperation):
        for field in message.DESCRIPTOR.fields:
            assert f"\n### {field.message_type.name}\n" in text, field.name
