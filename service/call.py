"""`voicepace call`: a bridge on the command line. Shows the reply as it comes, writes its audio, and measures."""

import argparse
import asyncio
import json
import os
import secrets
import sys
import wave
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from service.call_report import call_report, report_lines
from service.protocols.catalog import CATALOG
from service.protocols.events import Encoding

if TYPE_CHECKING:
    from service.bridge_caller import BridgeCaller
    from service.bridges.bridge import Bridge
    from service.caller import Caller

DEFAULT_URL = "ws://127.0.0.1:8080"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `voicepace call`."""
    parser.add_argument("texts", nargs="+", metavar="TEXT", help="what the caller says; several are several turns")
    parser.add_argument(
        "--url", default=DEFAULT_URL, help="the service; without a path, the dialect's own (default: %(default)s)"
    )
    parser.add_argument(
        "--dialect", choices=[*CATALOG], default="native", help="the bridge to be (default: %(default)s)"
    )
    parser.add_argument(
        "--audio",
        choices=["none", "pcm16", "mulaw", "alaw"],
        help="native: ask for audio in this format (default: none; pcm16 with --out)",
    )
    parser.add_argument(
        "--rate", type=int, default=8000, metavar="HZ", help="native: sample rate (default: %(default)s)"
    )
    parser.add_argument("--call-id", metavar="ID", help="of a bridge's call (default: made up)")
    parser.add_argument("--out", metavar="FILE", help="write what was heard to a WAV file")
    parser.add_argument(
        "--interrupt-after",
        type=float,
        metavar="S",
        help="break in so long after a reply begins; on an audio bridge by the next TEXT",
    )
    parser.add_argument("--turns", type=int, metavar="N", help="say the texts in turn until N turns are done")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S", help="longest silence of the service")
    parser.add_argument("--key-env", metavar="NAME", help="environment variable that holds the key")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def run(args: argparse.Namespace) -> int:
    """Hold the call; the exit code is 0 only if it was held to its end."""
    from service.caller import CallFailed

    try:
        return asyncio.run(_call(args))
    except CallFailed as error:
        print(f"voicepace call: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


async def _call(args: argparse.Namespace) -> int:
    from service.caller import CallFailed, CallPlan, Screen, connected

    bridge = _bridge(args)
    encoding = args.audio or ("pcm16" if args.out else "none")
    audio = None if encoding == "none" else {"encoding": encoding, "sample_rate_hz": args.rate}
    if bridge is not None:
        audio = None if bridge.audio is None else asdict(bridge.audio)
    if args.out and audio is None:
        raise CallFailed(
            "--out needs audio: " + ("leave out --audio none" if bridge is None else "this dialect has none")
        )
    count = len(args.texts) if args.turns is None else args.turns
    texts = [args.texts[turn % len(args.texts)] for turn in range(count)]
    plan = CallPlan(texts, audio, args.interrupt_after, args.timeout)
    failure: CallFailed | None = None
    caller: Caller | BridgeCaller | None = None
    url, key = _url(args.url, args.dialect), _key(args.key_env)
    screen = Screen(None if args.json else sys.stdout)
    try:
        async with connected(url, key, bridge.subprotocol if bridge else None) as socket:
            caller = _caller(bridge, args.call_id, socket, plan, screen, url, key)
            await caller.hold()
    except CallFailed as error:  # what was measured until then is still worth showing
        failure = error
    if caller is not None and caller.replies:
        _show(args, caller, audio, failure)
    if failure is not None:
        raise failure
    return 0


def _bridge(args: argparse.Namespace) -> "Bridge | None":
    """The far end of a dialect, None for the native one."""
    from service.bridges.catalog import BRIDGES
    from service.caller import CallFailed

    if args.dialect == "native":
        return None
    args.call_id = args.call_id or f"call-{secrets.token_hex(6)}"
    bridge = BRIDGES[args.dialect](call_id=args.call_id)
    if bridge.audio is not None and args.interrupt_after is not None and max(len(args.texts), args.turns or 0) < 2:
        raise CallFailed("--interrupt-after: on an audio bridge the caller breaks in with a further TEXT; give one")
    return bridge


def _caller(
    bridge: "Bridge | None", call_id: str, socket: Any, plan: Any, screen: Any, url: str, key: str | None
) -> Any:
    from service.bridge_caller import BridgeCaller
    from service.caller import Caller

    return (
        Caller(socket, plan, screen)
        if bridge is None
        else BridgeCaller(bridge, call_id, socket, plan, screen, url, key)
    )


def _url(url: str, dialect: str) -> str:
    return url if urlsplit(url).path.strip("/") else url.rstrip("/") + CATALOG[dialect].path


def _key(name: str | None) -> str | None:
    from service.caller import CallFailed

    if name is None:
        return None
    if not (key := os.environ.get(name)):
        raise CallFailed(f"the environment variable {name} is not set")
    return key


def _show(args: argparse.Namespace, caller: Any, audio: dict[str, Any] | None, failure: Exception | None) -> None:
    report = call_report([reply.times for reply in caller.replies])
    if args.out and audio:
        frames = b"".join(frame for reply in caller.replies for frame in reply.frames)
        write_wav(args.out, frames, audio["encoding"], audio["sample_rate_hz"])
    if args.json:
        replies = [{"text": "".join(r.pieces), "reason": r.times.reason, "heard": r.heard} for r in caller.replies]
        outcome = {"call_id": caller.call_id, "failure": str(failure) if failure else None}
        print(json.dumps({**outcome, "audio": audio, "replies": replies, "figures": report}, ensure_ascii=False))
    else:
        print("\n" + "\n".join(report_lines(report)))
        if args.out and audio:
            print(f"heard           {args.out}")


def write_wav(path: str, payload: bytes, encoding: Encoding, sample_rate_hz: int) -> None:
    """Mono 16-bit WAV of audio in the call's format."""
    from tts_adapter.audio import decode

    samples = decode(payload, encoding)
    with wave.open(path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate_hz)
        file.writeframes(samples.astype("<i2").tobytes())
