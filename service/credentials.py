"""Between the pure checks of `service.auth` and a request: which keys there are, and what the request shows."""

import secrets
import time
from dataclasses import replace

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from service.auth import Keys, Upgrade, bearer_matches, refuse, sign_path
from service.protocols.catalog import DialectEntry
from service.settings import AuthOptions, SettingsError

TOKEN_LIFE_S = 60


class Credentials:
    """Decides on requests.

    Args:
        options: keys, origins, and what a proxy in front does.

    Raises:
        SettingsError: the file of keys cannot be read.
    """

    def __init__(self, options: AuthOptions) -> None:
        self._options = options
        keys = Keys(
            bearer=(*(key.get_secret_value() for key in options.api_keys), *_keys_of_file(options)),
            twilio_auth_tokens=tuple(token.get_secret_value() for token in options.twilio_auth_tokens),
            basic={user: password.get_secret_value() for user, password in options.basic.items()},
            signing=tuple(key.get_secret_value() for key in options.signing_keys),
        )
        # Tokens for browsers can be signed in any case; a configured key comes first, since replicas share it.
        own = (*keys.signing, secrets.token_urlsafe(32))
        self._keys = keys if keys.empty else replace(keys, signing=own)

    def upgrade_refusal(self, scope: Scope, entry: DialectEntry) -> str | None:
        """Why a WebSocket upgrade is refused: `auth`, `origin`, or None."""
        options = self._options
        token = scope.get("path_params", {}).get("token")
        headers = Headers(scope=scope)
        upgrade = Upgrade(
            entry.path,
            scope["query_string"].decode("latin-1"),
            {name.lower(): value for name, value in headers.items()},
            scope["scheme"] == "wss",
            token or _query_token(scope),
        )
        refusal = refuse(
            upgrade,
            entry.auth,
            self._keys,
            time.time(),
            allowed_origins=options.allowed_origins,
            public_url=options.public_url,
            trust_forwarded=options.trust_forwarded,
        )
        return None if refusal is None else "origin" if refusal == "bad_origin" else "auth"

    def path_token(self, path: str) -> str:
        """A token that opens `path` for `TOKEN_LIFE_S`; empty where none is needed."""
        if self._keys.empty:
            return ""
        return sign_path(self._keys.signing[0], path, int(time.time()) + TOKEN_LIFE_S)

    def admits(self, scope: Scope) -> bool:
        """True where an HTTP request shows a bearer key, or none is needed."""
        return self._keys.empty or bearer_matches(Headers(scope=scope).get("authorization", ""), self._keys.bearer)


class BearerOnly:
    """Middleware: HTTP requests under `/v1/` need a bearer key. Probes, metrics and the console do not."""

    def __init__(self, app: ASGIApp, credentials: Credentials) -> None:
        self._app = app
        self._credentials = credentials

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or answer 401."""
        guarded = scope["type"] == "http" and scope["path"].startswith("/v1/")
        if guarded and not self._credentials.admits(scope):
            error = {"message": "a bearer key is needed", "type": "AuthenticationError", "param": None, "code": 401}
            await JSONResponse({"error": error}, 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _keys_of_file(options: AuthOptions) -> tuple[str, ...]:
    if options.api_keys_file is None:
        return ()
    try:
        lines = options.api_keys_file.read_text().splitlines()
    except OSError as error:
        raise SettingsError(f"auth.api_keys_file: {error.strerror}") from None
    return tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))


def _query_token(scope: Scope) -> str | None:
    for pair in scope["query_string"].decode("latin-1").split("&"):
        name, _, value = pair.partition("=")
        if name == "token":
            return str(value)
    return None
