"""Who may connect: pure checks of one WebSocket upgrade, made before it is accepted.

Any one scheme of those a dialect allows is enough: a bearer key, Twilio's request signature, HTTP basic, or a signed
path for bridges that can send no header. Comparisons take the same time whatever the difference (bytes, since text
outside ASCII cannot be compared that way). Keys are handed in; nothing here reads the environment, and no key, header
or URL is ever part of an answer.

Sources: RFC 6750 (bearer), RFC 7617 (basic), RFC 6454 (origin), Twilio "Security: validating requests" (for a WebSocket
the signed text is the URL alone, there being no form fields).
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

Refusal = Literal["no_credentials", "bad_credentials", "bad_origin"]

MAX_HEADER_CHARS = 4_096
MAX_TOKEN_CHARS = 128
DEFAULT_PORTS = {"wss": 443, "https": 443, "ws": 80, "http": 80}


@dataclass(frozen=True, slots=True)
class Keys:
    """Secrets that open the door, several of each so that they can be rotated. Never shown by `repr`.

    Attributes:
        bearer: keys of `Authorization: Bearer`.
        twilio_auth_tokens: account auth tokens, for request signatures.
        basic: user name to password.
        signing: keys of signed paths.
    """

    bearer: tuple[str, ...] = ()
    twilio_auth_tokens: tuple[str, ...] = ()
    basic: Mapping[str, str] | None = None
    signing: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "Keys(…)"

    @property
    def empty(self) -> bool:
        """True where nothing is set at all: then everybody who reaches the port may connect."""
        return not (self.bearer or self.twilio_auth_tokens or self.basic or self.signing)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The request for a WebSocket, as the server sees it.

    Attributes:
        path: raw path, without the token of a signed path.
        query: raw query string, without `?`.
        headers: names in lower case.
        secure: the connection itself is TLS.
        token: the last part of a signed path, or the `token` of the query; None where there is none.
    """

    path: str
    query: str
    headers: Mapping[str, str]
    secure: bool = False
    token: str | None = None


def refuse(
    upgrade: Upgrade,
    schemes: Iterable[str],
    keys: Keys,
    now_unix_s: float,
    *,
    allowed_origins: tuple[str, ...] = (),
    public_url: str | None = None,
    trust_forwarded: bool = False,
) -> Refusal | None:
    """Why the upgrade is refused, or None.

    Args:
        schemes: those the dialect allows: `bearer`, `twilio_signature`, `basic`, `signed_path`.
        now_unix_s: seconds since 1970, against the expiry of signed paths.
        allowed_origins: web origins beside the service's own; `*` allows all.
        public_url: scheme and host that callers use, where a proxy hides them.
        trust_forwarded: believe `X-Forwarded-Host` and `X-Forwarded-Proto` (only behind a proxy that sets them).
    """
    url = request_url(upgrade, public_url=public_url, trust_forwarded=trust_forwarded)
    if not origin_allowed(upgrade.headers.get("origin"), url, allowed_origins):
        return "bad_origin"
    if keys.empty:
        return None
    authorization = upgrade.headers.get("authorization", "")
    checks = {
        "bearer": lambda: bearer_matches(authorization, keys.bearer),
        "twilio_signature": lambda: twilio_signed(
            upgrade.headers.get("x-twilio-signature", ""), url, keys.twilio_auth_tokens
        ),
        "basic": lambda: basic_matches(authorization, keys.basic or {}),
        "signed_path": lambda: token_valid(upgrade.token or "", upgrade.path, keys.signing, now_unix_s),
    }
    if any(checks[scheme]() for scheme in schemes):
        return None
    offered = authorization or upgrade.headers.get("x-twilio-signature") or upgrade.token
    return "bad_credentials" if offered else "no_credentials"


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))


def _among(offered: str, keys: Iterable[str]) -> bool:
    """True where one of the keys is offered. All are compared, so that the time does not tell which."""
    found = False
    for key in keys:
        found |= bool(key) and _same(offered, key)
    return found


def bearer_matches(authorization: str, keys: Iterable[str]) -> bool:
    """`Authorization: Bearer KEY` (RFC 6750)."""
    scheme, _, offered = authorization[:MAX_HEADER_CHARS].partition(" ")
    return scheme.lower() == "bearer" and _among(offered.strip(), keys)


def basic_matches(authorization: str, users: Mapping[str, str]) -> bool:
    """`Authorization: Basic base64(user:password)` (RFC 7617)."""
    scheme, _, offered = authorization[:MAX_HEADER_CHARS].partition(" ")
    if scheme.lower() != "basic":
        return False
    try:
        decoded = base64.b64decode(offered.strip(), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return False
    return _among(decoded, (f"{user}:{password}" for user, password in users.items()))


def twilio_signature(auth_token: str, url: str, form: Mapping[str, str] | None = None) -> str:
    """Twilio's signature: base64 of HMAC-SHA1 over the URL and the form's sorted names and values."""
    signed = url + "".join(name + value for name, value in sorted((form or {}).items()))
    digest = hmac.new(auth_token.encode(), signed.encode("utf-8", "surrogatepass"), hashlib.sha1)
    return base64.b64encode(digest.digest()).decode("ascii")


def twilio_signed(signature: str, url: str, auth_tokens: Iterable[str]) -> bool:
    """True where `signature` fits `url` under one of the tokens.

    Twilio signs the URL as it was configured. What a server sees of it may differ in the scheme (an upgrade is an HTTP
    request), in a default port and in a slash at the end of the path, so those spellings count too.
    """
    if not signature or len(signature) > MAX_TOKEN_CHARS:
        return False
    spellings = _spellings(url)
    return _among(signature, [twilio_signature(token, spelling) for token in auth_tokens for spelling in spellings])


def _spellings(url: str) -> list[str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return [url]
    schemes = ("wss", "https") if parts.scheme in ("wss", "https") else ("ws", "http")
    hosts = [parts.netloc]
    port = DEFAULT_PORTS[schemes[0]]
    if parts.netloc.endswith(f":{port}"):
        hosts.append(parts.netloc.removesuffix(f":{port}"))
    elif ":" not in parts.netloc.rpartition("]")[2]:
        hosts.append(f"{parts.netloc}:{port}")
    paths = [parts.path, parts.path.removesuffix("/") if parts.path.endswith("/") else parts.path + "/"]
    query = f"?{parts.query}" if parts.query else ""
    return [f"{scheme}://{host}{path}{query}" for scheme in schemes for host in hosts for path in paths]


def request_url(upgrade: Upgrade, *, public_url: str | None = None, trust_forwarded: bool = False) -> str:
    """The URL that the caller used, as far as it can be known."""
    headers = upgrade.headers
    host = headers.get("host", "")
    scheme = "wss" if upgrade.secure else "ws"
    if trust_forwarded:
        host = headers.get("x-forwarded-host", host).partition(",")[0].strip()
        forwarded = headers.get("x-forwarded-proto", scheme).partition(",")[0].strip().lower()
        scheme = "wss" if forwarded in ("https", "wss") else "ws"
    base = f"{scheme}://{host}"
    if public_url:
        base = public_url.rstrip("/")
        base = {"https": "wss", "http": "ws"}.get(base.partition(":")[0], base.partition(":")[0]) + base[
            base.find(":") :
        ]
    path = upgrade.path if upgrade.token is None or "token=" in upgrade.query else f"{upgrade.path}/{upgrade.token}"
    return base + path + (f"?{upgrade.query}" if upgrade.query else "")


def origin_allowed(origin: str | None, url: str, allowed: Iterable[str]) -> bool:
    """Browsers name the page's origin; without one the caller is no browser. The service's own page may connect."""
    if origin is None:
        return True
    allowed = tuple(allowed)
    if "*" in allowed or origin.rstrip("/").lower() in {entry.rstrip("/").lower() for entry in allowed}:
        return True
    try:
        page, own = urlsplit(origin), urlsplit(url)
        page_port = page.port or DEFAULT_PORTS.get(page.scheme)
        own_port = own.port or DEFAULT_PORTS.get(own.scheme)
    except ValueError:
        return False
    return page.scheme in ("http", "https") and (page.hostname, page_port) == (own.hostname, own_port)


def sign_path(key: str, path: str, expires_unix_s: int) -> str:
    """A token that opens `path` until then: `EXPIRY.SIGNATURE`, fit for a URL."""
    digest = hmac.new(key.encode(), f"{path}\n{expires_unix_s}".encode(), hashlib.sha256).digest()
    return f"{expires_unix_s}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode('ascii')}"


def token_valid(token: str, path: str, keys: Iterable[str], now_unix_s: float) -> bool:
    """True for a token of `sign_path` for this path that has not expired."""
    expiry, _, _ = token.partition(".")
    if len(token) > MAX_TOKEN_CHARS or not (expiry.isascii() and expiry.isdigit()) or len(expiry) > 12:
        return False
    matches = _among(token, [sign_path(key, path, int(expiry)) for key in keys if key])
    return matches and now_unix_s < int(expiry)
