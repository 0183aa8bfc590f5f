"""A Dockerfile as data: stages, their base and their instructions."""

import re
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Stage:
    """One `FROM … AS name`."""

    base: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all(self, keyword: str) -> list[str]:
        return [arguments for word, arguments in self.instructions if word == keyword]


def stages(path: Path) -> dict[str, Stage]:
    """Stage by name, in order. Every stage has a name."""
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE)
    found: dict[str, Stage] = {}
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if not line.strip():
            continue
        keyword, arguments = line.split(maxsplit=1)
        if keyword == "FROM":
            base, _, name = arguments.split()
            current = found[name] = Stage(base)
        else:
            current.instructions.append((keyword, arguments.strip()))
    return found


def ancestry(found: dict[str, Stage], name: str) -> list[Stage]:
    """The stages that an image is made of, its base first."""
    stage = found[name]
    return [*(ancestry(found, stage.base) if stage.base in found else []), stage]
