"""The console at `/`: a page and its parts, read once and served as they are, with nothing from anywhere else.

A browser cannot send a bearer key with a WebSocket, so a page exchanges it for a signed token of short life first.
"""

from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

from fastapi import FastAPI, Request, Response

from service.credentials import TOKEN_LIFE_S, Credentials

MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

# `'self'` covers the WebSocket of the page's own host (CSP 3, section 6.7.2.8).
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file of the console."""

    body: bytes
    media_type: str
    etag: str


def assets() -> dict[str, Asset]:
    """Every file a browser may ask for, by name."""
    found = {}
    for entry in files("service").joinpath("console").iterdir():
        media_type = MEDIA_TYPES.get("." + entry.name.rpartition(".")[2])
        if media_type is not None and entry.is_file():
            body = entry.read_bytes()
            found[entry.name] = Asset(body, media_type, f'"{sha256(body).hexdigest()[:32]}"')
    return found


def mount(app: FastAPI, credentials: Credentials) -> None:
    """Put the page at `/`, its parts under `/console/`, and `/v1/voice-token`, which needs a key as all of `/v1/` does."""
    served = assets()

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        return _answer(request, served["index.html"])

    @app.get("/console/{name}", include_in_schema=False)
    async def part(request: Request, name: str) -> Response:
        asset = served.get(name)
        if asset is None:
            return Response("not part of the console\n", 404, media_type="text/plain")
        return _answer(request, asset)

    @app.post("/v1/voice-token")
    async def voice_token() -> dict[str, str | int]:
        """A token for `/v1/voice?token=`, empty where the service asks for none."""
        return {"token": credentials.path_token("/v1/voice"), "expires_in_s": TOKEN_LIFE_S}


def _answer(request: Request, asset: Asset) -> Response:
    headers = {**HEADERS, "ETag": asset.etag}
    if request.headers.get("if-none-match") == asset.etag:
        return Response(status_code=304, headers=headers)
    return Response(asset.body, headers=headers, media_type=asset.media_type)
