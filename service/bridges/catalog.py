"""Simulated bridges by the name of their dialect. The native protocol has a client of its own."""

from collections.abc import Callable, Mapping
from functools import partial

from service.bridges.asterisk import AsteriskBridge
from service.bridges.bridge import Bridge
from service.bridges.jambonz import JambonzBridge
from service.bridges.media_stream import MediaStreamBridge
from service.bridges.relay import RelayBridge

BRIDGES: Mapping[str, Callable[..., Bridge]] = {
    "twilio-relay": partial(RelayBridge, "twilio"),
    "telnyx-relay": partial(RelayBridge, "telnyx"),
    "twilio-media": partial(MediaStreamBridge, "twilio"),
    "telnyx-media": partial(MediaStreamBridge, "telnyx"),
    "signalwire-media": partial(MediaStreamBridge, "signalwire"),
    "plivo-media": partial(MediaStreamBridge, "plivo"),
    "jambonz": JambonzBridge,
    "asterisk": AsteriskBridge,
}
"""Each makes a bridge for one call; `call_id` may be given by keyword."""
