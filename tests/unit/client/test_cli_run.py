"""What `pathways run` looks at before it starts anything, what a script sees, and the start-up hook."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from pathways import startup
from pathways.cli.faults import Refusal
from pathways.cli.interpreter import check_command
from pathways.cli.run import script_environment

_HOOK = str(Path(startup.__file__).parent)


def _fake_python(directory: Path, *modules: str) -> Path:
    """An interpreter that finds only some packages: the real one, isolated, with stand-ins on its path."""
    for name in modules:
        (directory / "packages" / name).mkdir(parents=True)
        (directory / "packages" / name / "__init__.py").touch()
    (directory / "packages").mkdir(exist_ok=True)
    program = directory / "python3"
    # -S and -E: nothing but the standard library and what is put on the path here.
    first = f"import sys; sys.path.append('{directory}/packages'); exec(sys.argv[1])"
    program.write_text(f'#!/bin/sh\nshift\nexec {sys.executable} -S -E -c "{first}" "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def test_this_interpreter_passes() -> None:
    check_command([sys.executable, "script.py"], os.environ)


def test_python_without_our_package_is_one_sentence(tmp_path: Path) -> None:
    program = _fake_python(tmp_path, "jax")
    with pytest.raises(Refusal, match=f"has no package `pathways`: run the script with {sys.executable}"):
        check_command([str(program), "script.py"], os.environ)


def test_package_that_is_only_in_the_current_directory_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _fake_python(tmp_path, "jax")
    (tmp_path / "pathways").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refusal, match="has no package `pathways`"):
        check_command([str(program), "script.py"], os.environ)


def test_package_that_is_importable_but_not_installed_does_not_count(tmp_path: Path) -> None:
    program = _fake_python(tmp_path, "jax", "pathways")
    with pytest.raises(Refusal, match="has no package `pathways`"):
        check_command([str(program), "script.py"], os.environ)


def test_missing_program_and_script_without_python_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="there is no program 'nonesuch'") as caught:
        check_command(["nonesuch"], os.environ)
    assert caught.value.code == 127
    script = tmp_path / "train.py"
    script.touch()
    with pytest.raises(Refusal, match=f"write `pathways run -- python {script}`"):
        check_command([str(script)], os.environ)


def test_interpreter_that_does_not_work_is_one_sentence(tmp_path: Path) -> None:
    program = tmp_path / "python3"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o700)
    with pytest.raises(Refusal, match="could not be asked"):
        check_command([str(program)], os.environ)


def test_other_programs_may_pass() -> None:
    check_command(["sh", "-c", "python script.py"], os.environ)


def test_script_sees_the_cluster_and_no_other(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch()
    before = {"JAX_BACKEND_TARGET": "grpc://other:1", "JAX_PLATFORMS": "cpu", "PYTHONPATH": "/mine", "HOME": "/home/me"}
    seen = script_environment(before, "127.0.0.1:29000", token, all_islands=False)
    assert seen == {
        "HOME": "/home/me",
        "JAX_PLATFORMS": "proxy,cpu",
        "PATHWAYS_ADDRESS": "grpc://127.0.0.1:29000",
        "PATHWAYS_STARTUP_HOOK": _HOOK,
        "PATHWAYS_TOKEN_FILE": str(token),
        "PYTHONPATH": f"{_HOOK}:/mine",
    }


def test_token_of_the_user_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    seen = script_environment({"PATHWAYS_TOKEN": "mine"}, "h:1", tmp_path / "token", all_islands=True)
    assert seen["PATHWAYS_TOKEN"] == "mine"
    assert "PATHWAYS_TOKEN_FILE" not in seen
    assert seen["PATHWAYS_ISLANDS"] == "all"


def _pathways(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "PATHWAYS_"))}
    command = [sys.executable, "-m", "pathways.cli.main", *words]
    return subprocess.run(command, env=clean | environment, capture_output=True, text=True, timeout=60, check=False)


def test_unknown_platform_is_one_sentence() -> None:
    done = _pathways("run", "--", sys.executable, "-c", "1", JAX_PLATFORMS="prox,cpu")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "pathways: JAX_PLATFORMS names 'prox', which is no platform; unset it, `pathways run` sets it to proxy,cpu"
    ]


def test_controller_that_is_not_up_is_one_sentence() -> None:
    done = _pathways("run", "--address", "127.0.0.1:9", "--", sys.executable, "-c", "1")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "pathways: no controller answers at grpc://127.0.0.1:9: start one with `pathways up`, or check the address"
    ]


@pytest.mark.parametrize("words", [["run"], ["run", "--address", "h:1", "--hosts", "2", "--", "python"], ["fly"]])
def test_wrong_words_are_explained_without_a_traceback(words: list[str]) -> None:
    done = _pathways(*words)
    assert done.returncode == 2
    assert "Error: " in done.stderr
    assert "Traceback" not in done.stderr


def _hooked(script: str, *paths: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "PATHWAYS_"))}
    clean["PYTHONPATH"] = os.pathsep.join([_HOOK, *map(str, paths)])
    clean["JAX_PLATFORMS"] = "cpu"
    return subprocess.run(
        [sys.executable, "-c", script], env=clean | environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("arguments", ["", "'127.0.0.1:1', 1, 0"])
def test_distributed_initialize_is_refused_with_one_sentence(arguments: str) -> None:
    done = _hooked(f"import jax; jax.distributed.initialize({arguments})")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("pathways: jax.distributed.initialize() has no place in a script under `pathways run`")
    assert line.endswith("so remove the call")


def test_hook_leaves_jax_and_other_errors_alone() -> None:
    done = _hooked("import sys; assert 'jax' not in sys.modules; import jax; assert jax.jit(lambda x: x + 1)(1) == 2; 1 / 0")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.rstrip().endswith("ZeroDivisionError: division by zero")


def test_error_from_the_start_is_shown_without_traceback_also_behind_jax() -> None:
    script = """
from pathways import errors
try:
    raise errors.UnauthenticatedError("no token was sent", at_start=True)
except RuntimeError as error:
    raise RuntimeError(f"Unable to initialize backend 'proxy': {error}")
"""
    done = _hooked(script)
    assert (done.returncode, done.stderr) == (1, "pathways: no token was sent\n")
    assert _hooked(script, PATHWAYS_DEBUG="1").stderr.startswith("Traceback")


def test_error_of_a_computation_keeps_its_traceback() -> None:
    done = _hooked("from pathways import errors; raise errors.UserError('mine')")
    assert done.stderr.startswith("Traceback")


def test_other_sitecustomize_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.set_by_the_other = 5\nmark = 6\n")
    done = _hooked("import sys, sitecustomize; print(sys.set_by_the_other, sitecustomize.mark)", tmp_path)
    assert done.stdout == "5 6\n", done.stderr
