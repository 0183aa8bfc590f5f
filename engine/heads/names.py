"""What `engine.heads` may name: the heads that come with the service, or files that were trained. Reads no heads."""

from pathlib import Path

from engine.heads.config import ARCHITECTURES, Architecture

SHIPPED = "shipped"
_FOLDER = Path(__file__).parent / "shipped"
_SUFFIX = ".safetensors"


class HeadsMissing(ValueError):
    """`engine.heads` names nothing that is there; says what."""


def shipped_path(architecture: Architecture) -> Path:
    """The file of shipped heads."""
    return _FOLDER / f"{architecture}{_SUFFIX}"


def reply_files() -> list[Path]:
    """Replies that the shipped heads were not trained on: those they are judged by first."""
    return sorted(_FOLDER.glob("*.jsonl.gz"), key=lambda path: (path.name != "held_out.jsonl.gz", path.name))


def is_ours(name: str) -> bool:
    """Whether `name` is a file of heads, or a folder with one, as `voicepace heads train` writes them."""
    path = Path(name).expanduser()
    if path.is_dir():
        return any((path / f"{architecture}{_SUFFIX}").is_file() for architecture in ARCHITECTURES)
    return name == SHIPPED or (path.suffix == _SUFFIX and path.is_file())


def heads_path(name: str, architecture: Architecture) -> Path:
    """The file that `engine.heads` names: a file of ours, a folder with one of this architecture, or `shipped`.

    Raises:
        HeadsMissing: none of these.
    """
    if name == SHIPPED:
        return shipped_path(architecture)
    path = Path(name).expanduser()
    if path.is_dir():
        path = path / f"{architecture}{_SUFFIX}"
    if not path.is_file():
        raise HeadsMissing(f"heads: {path} does not exist")
    return path
