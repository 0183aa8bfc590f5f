"""All settings: one frozen tree, and the only reader of the environment.

A flag wins over the environment (`VOICEPACE_ENGINE__MODEL`), that over the TOML file, that over the profile.
Sections are owned by the package they configure. An unknown or malformed key is an error that names it.
"""

import json
import math
import os
import tomllib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from engine.api import Sampling
from engine.options import EngineOptions
from engine.profiles import PROFILES
from service.barge_in import BargeInOptions
from service.protocols.catalog import CATALOG, DialectEntry
from tts_adapter.options import PacingOptions, SpeechOptions
from tts_adapter.voices.options import VoiceOptions

ENV_PREFIX = "VOICEPACE_"
ENV_DELIMITER = "__"


class SettingsError(Exception):
    """A setting is unknown, malformed or out of range; one line per fault, each naming the key."""


class Section(BaseModel):
    """A part of the tree."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ServerOptions(Section):
    """The socket and the limits of a call."""

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    max_calls: int = Field(32, ge=1, description="Calls at a time; one more is refused with 503.")
    max_waiting_calls: int = Field(
        8, ge=0, description="Calls that may wait for a place before the upgrade; one more is refused at once."
    )
    max_wait_s: float = Field(2.0, ge=0, description="How long such a call waits before it is refused.")
    max_predicted_gap_ms: float | None = Field(
        None, gt=0, description="A call whose admission would push the predicted delivered gap over this is not taken."
    )
    objective_ratio: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Share of delivered gaps within `pacing.slo_ms` that alerts hold the service to over 30 days; "
        "without one, gaps are recorded and nothing alerts.",
    )
    drain_s: float = Field(30.0, ge=0, description="On SIGTERM, running calls may go on for this long.")
    max_message_bytes: int = Field(65536, ge=1024, description="Largest WebSocket message taken from a bridge.")
    max_messages_per_s: float = Field(
        200.0,
        gt=0,
        description="Messages a call may send per second, averaged over two seconds; beyond it the call ends.",
    )
    send_timeout_s: float = Field(5.0, gt=0, description="A bridge that takes no data for this long loses its call.")
    ping_intervals_s: dict[str, float] = Field(
        default_factory=dict,
        description="Seconds between WebSocket pings, by dialect; 0: none. Default: 20, and none for `asterisk`.",
    )
    idle_timeout_s: float = Field(300.0, gt=0, description="A call without any message for this long ends.")
    max_call_s: float = Field(3600.0, gt=0, description="Longest call.")

    @field_validator("ping_intervals_s")
    @classmethod
    def _known_dialects(cls, intervals_s: dict[str, float]) -> dict[str, float]:
        for name, interval_s in intervals_s.items():
            if name not in CATALOG:
                raise ValueError(f"there is no dialect {name!r}; known: {', '.join(sorted(CATALOG))}")
            if not 0 <= interval_s < math.inf:
                raise ValueError(f"{name}: must be 0 or more")
        return intervals_s

    def ping_interval(self, entry: DialectEntry) -> float | None:
        """Seconds between the pings of a dialect's calls, None for no pings."""
        return self.ping_intervals_s.get(entry.name, entry.ping_interval_s or 0.0) or None


class AuthOptions(Section):
    """Who may connect. Without keys everybody who reaches the port may."""

    api_keys: tuple[SecretStr, ...] = Field((), description="Bearer keys (a JSON list in the environment).")
    api_keys_file: Path | None = Field(None, description="File with one bearer key per line.")
    twilio_auth_tokens: tuple[SecretStr, ...] = Field(
        (), description="Auth tokens of Twilio accounts, to check the signature of their requests."
    )
    basic: dict[str, SecretStr] = Field(
        default_factory=dict, description="User names and passwords of HTTP basic, for jambonz and Asterisk."
    )
    signing_keys: tuple[SecretStr, ...] = Field(
        (), description="Keys of signed paths, for bridges that can send no header."
    )
    allowed_origins: tuple[str, ...] = Field(
        (), description="Origins of web pages that may connect, beside the service's own console."
    )
    public_url: str | None = Field(
        None, description="URL that bridges use, where a proxy hides it (signatures hold it)."
    )
    trust_forwarded: bool = Field(
        False, description="Believe X-Forwarded-Host and X-Forwarded-Proto: only behind a proxy that sets them."
    )


class ConversationOptions(Section):
    """What the model is told and how it replies."""

    system_prompt: str = Field(
        "You are a friendly assistant on a phone call. Answer in one or two short spoken sentences.",
        description="System prompt of calls that bring none of their own.",
    )
    max_reply_tokens: int = Field(160, ge=1, description="Longest reply.")
    temperature: float = Field(0.0, ge=0, le=2, description="Sampling temperature; 0 is greedy.")
    top_p: float = Field(1.0, gt=0, le=1, description="Nucleus sampling.")
    repetition_penalty: float = Field(1.0, gt=0, le=2, description="Over 1 discourages repetition.")
    max_history_tokens: int = Field(
        1536,
        ge=64,
        description="When history and reply would exceed this, the oldest exchanges are dropped, half at once.",
    )
    read_ahead: bool = Field(
        False,
        description="Have the engine read the caller's words while they are still being said (partial transcripts).",
    )
    speaking_rate_wpm: float = Field(
        160.0, gt=0, description="Words per minute, to estimate what was heard where a bridge reports no position."
    )

    @property
    def sampling(self) -> Sampling:
        """How replies are sampled."""
        return Sampling(
            max_tokens=self.max_reply_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            repetition_penalty=self.repetition_penalty,
        )


class ListenOptions(BargeInOptions):
    """What is done with the caller's audio."""

    vad: bool = Field(
        False, description="Speech in the caller's audio interrupts the reply on bridges that do not say so themselves."
    )
    recogniser_url: str | None = Field(
        None, pattern="^wss?://", description="WebSocket of a recogniser that gets the caller's audio of every call."
    )
    recogniser_key: SecretStr | None = Field(None, description="Bearer key for the recogniser.")

    @model_validator(mode="after")
    def _needs_its_extra(self) -> Self:
        if self.vad and not (find_spec("silero_vad") and find_spec("onnxruntime")):
            raise ValueError("vad needs packages that are not installed: install voicepace[vad]")
        return self


class OpenAIOptions(Section):
    """The OpenAI-compatible endpoints."""

    stream_unit: Literal["token", "burst"] = Field(
        "token", description="What one streamed chunk holds: one token, or all tokens of an engine step."
    )
    tool_parser: str | None = Field(
        None, description="Name of the engine's tool-call parser, also for native calls; none turns tools off."
    )


class ScriptedOptions(Section):
    """A stand-in for the engine that says one sentence at set times, to test and load the gateway alone."""

    enabled: bool = Field(False, description="Serve with the scripted engine instead of a model.")
    step_time_ms: float = Field(30.0, gt=0, description="Time between two bursts.")
    first_token_ms: float = Field(80.0, gt=0, description="Time to the first burst.")
    burst_sizes: tuple[int, ...] = Field(
        (1, 2, 2, 3, 4), min_length=1, description="Tokens per burst, drawn with equal chance: 2.4 on average."
    )


class TracesOptions(Section):
    """OpenTelemetry traces: one span per turn, with the stages to its first sound (extra `otel`)."""

    endpoint: str | None = Field(
        None,
        pattern="^https?://",
        description="OTLP/HTTP address that gets a span per turn, such as `http://collector:4318/v1/traces`.",
    )


class LogOptions(Section):
    """Logs go to standard error and never hold what was said."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="Lowest level shown.")


class Settings(Section):
    """The whole tree."""

    profile: str = Field("cpu-demo", description="Named set of defaults: see `voicepace profiles list`.")
    cache_dir: Path = Field(Path("~/.cache/voicepace"), description="Where the embedded model's checkpoint is kept.")
    engine: EngineOptions = EngineOptions()
    server: ServerOptions = ServerOptions()
    auth: AuthOptions = AuthOptions()
    conversation: ConversationOptions = ConversationOptions()
    listen: ListenOptions = ListenOptions()
    pacing: PacingOptions = PacingOptions()
    speech: SpeechOptions = SpeechOptions()
    voice: VoiceOptions = VoiceOptions()
    openai: OpenAIOptions = OpenAIOptions()
    scripted: ScriptedOptions = ScriptedOptions()
    log: LogOptions = LogOptions()
    traces: TracesOptions = TracesOptions()


def load_settings(
    flags: Mapping[str, str] | None = None,
    config_file: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Read and check all settings.

    Args:
        flags: dotted key to text, as from the command line (`{"engine.model": "…"}`).
        config_file: TOML file, one table per section.
        environ: instead of the process environment, in tests.

    Raises:
        SettingsError: naming every key at fault.
    """
    env = os.environ if environ is None else environ
    sources = [
        _nested(flags or {}),
        _nested(_from_environment(env)),
        _from_toml(config_file),
    ]
    name = next((str(source["profile"]) for source in sources if "profile" in source), "cpu-demo")
    if name not in PROFILES:
        raise SettingsError(f"profile: there is no profile {name!r}; known: {', '.join(sorted(PROFILES))}")
    sources.append({"profile": name, **PROFILES[name].settings})
    merged: dict[str, Any] = {}
    for source in reversed(sources):
        merged = _merged(merged, source)
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise SettingsError("\n".join(_fault(detail) for detail in error.errors())) from None


def keys() -> dict[str, tuple[str, Any]]:
    """Every leaf key with its description and default, in the order of the tree."""
    leaves: dict[str, tuple[str, Any]] = {}

    def walk(model: type[BaseModel], prefix: str) -> None:
        for name, field in model.model_fields.items():
            kind = field.annotation
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                walk(kind, f"{prefix}{name}.")
            else:
                leaves[prefix + name] = (field.description or "", field.get_default(call_default_factory=True))

    walk(Settings, "")
    return leaves


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(under)
    for key, value in over.items():
        below = both.get(key)
        both[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return both


def _nested(flat: Mapping[str, str]) -> dict[str, Any]:
    known = keys()
    tree: dict[str, Any] = {}
    for key, text in flat.items():
        if key not in known:
            raise SettingsError(f"{key}: there is no such setting")
        *path, leaf = key.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[leaf] = _value(key, text)
    return tree


def _value(key: str, text: str) -> Any:
    """Lists and tables are written as JSON; everything else is text that the field itself reads."""
    if not text.startswith(("[", "{")):
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise SettingsError(f"{key}: not valid JSON ({error.msg} at {error.pos})") from None


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(ENV_PREFIX).lower().replace(ENV_DELIMITER, "."): text
        for name, text in environ.items()
        if name.startswith(ENV_PREFIX)
    }


def _from_toml(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: {error}") from None


def _fault(detail: Any) -> str:
    key = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        return f"{key}: there is no such setting"
    return f"{key}: {detail['msg']}"
