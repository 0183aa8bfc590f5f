"""What a PromQL expression reads."""

import re

_WORDS = {
    "by",
    "on",
    "and",
    "or",
    "unless",
    "group_left",
    "group_right",
    "offset",
    "ignoring",
    "without",
    "vector",
    "time",
}
_SUFFIXES = ("_bucket", "_sum", "_count")


def metric_names(expression: str) -> set[str]:
    """Names of the metrics; histograms by their base name."""
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]', "", re.sub(r"\{[^}]*\}", "", expression))
    bare = re.sub(r"\b(by|on|ignoring|without|group_left|group_right) ?\([^)]*\)", "", bare)
    names = {
        match[0]
        for match in re.finditer(r"[a-zA-Z_:][\w:]*(?!\w|:)", bare)
        if not bare[match.end() :].lstrip().startswith("(") and match[0] not in _WORDS
    }
    return {_base(name) for name in names if not re.fullmatch(r"[smhdwy]|e\d*", name)}


def _base(name: str) -> str:
    if ":" in name and not name.startswith("vllm:"):
        return name
    return next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), name)
