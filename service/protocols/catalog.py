"""Every dialect by name: where it is served, who may connect and how its socket is kept.

Adding a dialect is one row here and one module beside it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from service.protocols.asterisk import AsteriskDialect
from service.protocols.events import Dialect
from service.protocols.jambonz import JambonzDialect
from service.protocols.media_stream import MediaStreamDialect
from service.protocols.native import NativeDialect
from service.protocols.relay import RelayDialect

AuthScheme = Literal["bearer", "twilio_signature", "basic", "signed_path"]


@dataclass(frozen=True, slots=True)
class DialectEntry:
    """One dialect of the service.

    Attributes:
        name: as in the `dialect` label and in settings.
        path: where it is served. A bridge that can send no header adds `/{token}` (see `service.auth`).
        make: a fresh dialect for one call.
        auth: schemes by which a caller may prove itself; any one of them is enough.
        ping_interval_s: default interval of WebSocket pings; None: no pings.
        surface: the `surface` label.
    """

    name: str
    path: str
    make: Callable[[], Dialect]
    auth: tuple[AuthScheme, ...]
    ping_interval_s: float | None
    surface: str


# Older Asterisk hangs up the call on a ping (asterisk/asterisk #1722), so it gets none.
_ENTRIES = (
    DialectEntry("native", "/v1/voice", NativeDialect, ("bearer", "signed_path"), 20.0, "voice"),
    DialectEntry(
        "twilio-relay",
        "/v1/relay/twilio",
        partial(RelayDialect, "twilio"),
        ("twilio_signature", "bearer", "signed_path"),
        20.0,
        "relay",
    ),
    DialectEntry(
        "telnyx-relay", "/v1/relay/telnyx", partial(RelayDialect, "telnyx"), ("bearer", "signed_path"), 20.0, "relay"
    ),
    DialectEntry(
        "twilio-media",
        "/v1/media/twilio",
        partial(MediaStreamDialect, "twilio"),
        ("twilio_signature", "bearer", "signed_path"),
        20.0,
        "media",
    ),
    DialectEntry(
        "telnyx-media",
        "/v1/media/telnyx",
        partial(MediaStreamDialect, "telnyx"),
        ("bearer", "signed_path"),
        20.0,
        "media",
    ),
    DialectEntry(
        "signalwire-media",
        "/v1/media/signalwire",
        partial(MediaStreamDialect, "signalwire"),
        ("bearer", "signed_path"),
        20.0,
        "media",
    ),
    DialectEntry(
        "plivo-media", "/v1/media/plivo", partial(MediaStreamDialect, "plivo"), ("bearer", "signed_path"), 20.0, "media"
    ),
    DialectEntry("jambonz", "/v1/jambonz", JambonzDialect, ("basic", "bearer", "signed_path"), 20.0, "jambonz"),
    DialectEntry("asterisk", "/v1/asterisk", AsteriskDialect, ("basic", "bearer", "signed_path"), None, "asterisk"),
)

CATALOG: Mapping[str, DialectEntry] = {entry.name: entry for entry in _ENTRIES}
