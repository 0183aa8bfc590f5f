"""The settings as a Markdown table: `python -m service.settings_table` prints what the README holds."""

from service.settings import keys


def table() -> str:
    """One row per setting: key, default, meaning."""
    rows = [f"| `{key}` | {_shown(default)} | {text} |" for key, (text, default) in keys().items()]
    return "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows])


def _shown(default: object) -> str:
    if default is None or default == () or default == {}:
        return "–"
    text = ", ".join(map(str, default)) if isinstance(default, tuple) else str(default)
    return f"`{text}`"


if __name__ == "__main__":
    print(table())
