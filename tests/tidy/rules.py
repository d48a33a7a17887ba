"""The house rules as functions of a path and a text. Each returns sentences, one per breach; none reads a file.

Which files a rule applies to is decided by the tests; what is generated is exempt everywhere.
"""

from __future__ import annotations

import ast
import re
from pathlib import PurePosixPath

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
DOCSTRING_LINES_MAX = 14
FORBIDDEN_NAMES = frozenset({"utils", "util", "helpers", "helper", "misc", "common", "base", "constants"})
# Written in pieces, so that this file does not break its own rule.
_REGISTRIES = re.compile(
    "|".join(["py" + "pi", "python" + "hosted", "anaconda" + r"\.", "index" + "-url", "find" + "-links"]), re.I
)
_MACHINE_PATHS = re.compile(r"(?<![\w./$}])/(?:" + "|".join(["wo" + "rk", "tm" + "p", "ro" + "ot"]) + r")/\w")
_NEVER_UNPICKLES = frozenset({"pickle", "_pickle", "cloudpickle", "dill", "shelve", "marshal", "jax", "jaxlib"})


def file_length(path: str, text: str) -> list[str]:
    lines = text.count("\n")
    return [f"{path} has {lines} lines; split it below {FILE_LINES_MAX}"] if lines >= FILE_LINES_MAX else []


def function_length(path: str, text: str) -> list[str]:
    breaches = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines >= FUNCTION_LINES_MAX:
                breaches.append(f"{path}:{node.lineno} {node.name} has {lines} lines; split it below {FUNCTION_LINES_MAX}")
    return breaches


def module_name(path: str, _text: str) -> list[str]:
    """Of modules only: the package `pathways_common` and a folder of its tests are fine."""
    name = PurePosixPath(path).stem
    return [f"{path}: a module named {name!r} says nothing about what is in it"] if name in FORBIDDEN_NAMES else []


def module_docstring(path: str, text: str) -> list[str]:
    if not text.strip():
        return []
    docstring = ast.get_docstring(ast.parse(text))
    if not docstring:
        return [f"{path} does not say in a docstring which rule it keeps"]
    lines = len(docstring.splitlines())
    return [f"{path}: a module docstring of {lines} lines; keep it to 8"] if lines > DOCSTRING_LINES_MAX else []


def future_annotations(path: str, text: str) -> list[str]:
    """Where anything could be annotated: files with a function or a class."""
    tree = ast.parse(text)
    if not any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) for node in ast.walk(tree)):
        return []
    good = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    return [] if good else [f"{path} does not begin with `from __future__ import annotations`"]


def no_registries(path: str, text: str) -> list[str]:
    return [
        f"{path}:{number} names a package index ({match[0]}); which one is used is the machine's business"
        for number, line in enumerate(text.splitlines(), 1)
        for match in [_REGISTRIES.search(line)]
        if match
    ]


def no_machine_paths(path: str, text: str) -> list[str]:
    return [
        f"{path}:{number} names a place of one machine: {line.strip()[:80]}"
        for number, line in enumerate(text.splitlines(), 1)
        if _MACHINE_PATHS.search(line)
    ]


def imports(text: str) -> set[str]:
    """The top-level names of everything that is imported anywhere in the text, in functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def never_unpickles(path: str, text: str) -> list[str]:
    """For the controller, the door and what they stand on."""
    return [f"{path} imports {name}; the controller and the door never do" for name in sorted(imports(text) & _NEVER_UNPICKLES)]


def sentence_names(path: str, text: str) -> list[str]:
    """Names of tests are sentences: at least three words."""
    return [
        f"{path}:{node.lineno} {node.name} is not a sentence; say what holds"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_") and node.name.count("_") < 3
    ]


def links(text: str) -> list[str]:
    """Targets of a Markdown text's links that point into the tree, without their anchors; code is left out."""
    without_code = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    targets = re.findall(r"\]\(([^)\s]+)\)", without_code)
    return [target.partition("#")[0] for target in targets if "://" not in target and target.partition("#")[0]]


def make_targets(makefile: str) -> set[str]:
    return set(re.findall(r"^([a-z-]+):(?!=)", makefile, re.M))


def unknown_make_commands(path: str, text: str, targets: set[str]) -> list[str]:
    """Commands of the form `make X`, in code spans and blocks, that the Makefile does not have."""
    code = " \n ".join(re.findall(r"```.*?```|`[^`\n]*`", text, re.S))
    named = re.findall(r"(?<![\w-])make ([a-z]+(?:-[a-z]+)*)\b", code)
    return [f"{path}: `make {name}` is not in the Makefile" for name in sorted(set(named)) if name not in targets]


def glossary_entries(text: str) -> list[str]:
    """Words that a glossary of `**word**: meaning` lines explains, in order."""
    return re.findall(r"^\*\*([^*]+)\*\*:", text, re.M)


def changelog_entries(text: str) -> int:
    """Points under the newest heading."""
    sections = re.split(r"^## ", text, flags=re.M)
    return len(re.findall(r"^- \S", sections[1], re.M)) if len(sections) > 1 else 0
