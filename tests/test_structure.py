"""The rules a reader relies on: who imports whom, who reads a clock, how long a module may be."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("engine", "tts_adapter", "service")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MAY_IMPORT = {"engine": {"engine"}, "tts_adapter": {"tts_adapter"}, "service": set(PACKAGES)}

PURE = (
    ["engine/api.py", "engine/pieces.py", "engine/step_log.py", "engine/fake_tokenizer.py", "engine/plan/*.py"]
    + ["engine/tree/topology.py", "engine/tree/drawing.py", "engine/tree/step.py", "engine/tree/walk.py"]
    + [
        "engine/tree/node_policy.py",
        "engine/tree/graft_policy.py",
        "engine/tree/chances.py",
        "engine/tree/row_costs.py",
    ]
    + ["tts_adapter/pacer.py", "tts_adapter/pace_model.py", "tts_adapter/playout.py", "tts_adapter/text_filter.py"]
    + ["tts_adapter/segmenter.py", "tts_adapter/options.py", "tts_adapter/gain.py", "tts_adapter/spoken_time.py"]
    + ["tts_adapter/voices/speaker.py", "tts_adapter/voices/windows.py", "tts_adapter/voices/silence.py"]
    + ["tts_adapter/voices/receptive_field.py"]
    + ["service/conversation.py", "service/reply.py", "service/rate_limit.py", "service/playback_ledger.py"]
    + ["service/protocols/*.py"]
)
IMPURE_MODULES = {"asyncio", "threading", "socket", "time", "fastapi", "starlette", "vllm", "torch", "logging"} | {
    "prometheus_client",
    "uvicorn",
    "websockets",
}
CLOCKS = {("time", "time"), ("time", "monotonic"), ("time", "perf_counter"), ("datetime", "now")}
# A signed path expires at a date, and a trace's spans carry dates, which the loop's clock does not know; the engine core and
# a process that speaks have no loop.
MAY_READ_CLOCKS = (
    "service/event_loop.py",
    "service/credentials.py",
    "service/traces.py",
    "engine/tree/stopwatch.py",
    "tts_adapter/voices/speaking_process.py",
) + (
    "engine/bench/",
    "engine/heads/",
    "engine/provenance.py",
    "service/logs.py",
    "tts_adapter/bench/",
)
# Each has one home; elsewhere they are imported nowhere, so that an engine without them starts.
HOMES = {"prometheus_client": ("service/",), "piper": ("tts_adapter/voices/piper_process.py",)}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_imports_follow_the_direction(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    tops = {module.split(".")[0] for module in imports(ast.parse(path.read_text()))}
    assert not (tops & set(PACKAGES)) - MAY_IMPORT[package]
    for module, homes in HOMES.items():
        assert module not in tops or name(path).startswith(homes)


def test_pure_modules_do_no_input_or_output() -> None:
    pure = [path for pattern in PURE for path in ROOT.glob(pattern)]
    assert len(pure) >= len(PURE)
    for path in pure:
        tops = {module.split(".")[0] for module in imports(ast.parse(path.read_text()))}
        assert not tops & IMPURE_MODULES, name(path)


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_only_the_loops_clock_is_read(path: Path) -> None:
    if name(path).startswith(MAY_READ_CLOCKS):
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert (node.value.id, node.attr) not in CLOCKS, f"line {node.lineno}"


def test_the_environment_is_read_by_the_settings_alone() -> None:
    # The engine package writes variables that its child processes need before they start.
    readers = {
        name(path)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}
    }
    assert {reader for reader in readers if not reader.startswith("engine/")} <= {
        "service/settings.py",
        "service/call.py",
        "service/loadtest/command.py",
        "tts_adapter/voices/piper.py",
    }


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_modules_are_short_and_documented(path: Path) -> None:
    source = path.read_text()
    assert len(source.splitlines()) <= 400
    assert ast.get_docstring(ast.parse(source))


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_tasks_belong_to_a_task_group(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert (node.value.id, node.attr) not in {("asyncio", "create_task"), ("asyncio", "ensure_future")}
