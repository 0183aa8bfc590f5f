"""What the README says is so: its tree, its settings, its commands."""

import re
from pathlib import Path

from service.cli import COMMANDS
from service.settings_table import table

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def section(title: str) -> str:
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_the_settings_table_is_the_settings() -> None:
    assert table() in README, "run `python -m service.settings_table` and put what it prints into the README"


def test_the_tree_names_every_module_and_nothing_else() -> None:
    named = set(re.findall(r"^\s*([\w./-]+\.py)\s", section("The tree"), re.MULTILINE))
    modules = {
        str(path.relative_to(ROOT))
        for package in ("engine", "service", "tts_adapter")
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py"
    }
    assert named == modules


def test_every_command_is_shown() -> None:
    for command in COMMANDS:
        assert f"voicepace {command}" in README


def test_the_first_commands_are_the_two() -> None:
    first = re.search(r"```sh\n(.*?)```", README, re.DOTALL)
    assert first is not None
    assert [line.split("#")[0].strip() for line in first.group(1).strip().splitlines()] == ["make run", "make test"]
