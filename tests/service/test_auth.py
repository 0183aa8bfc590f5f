import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service import auth
from service.auth import Keys, Upgrade, refuse, sign_path, token_valid, twilio_signature, twilio_signed

NOW = 1_800_000_000.0
TOKEN = "a-made-up-auth-token"
URL = "wss://voice.example.com/v1/relay/twilio"
# HMAC-SHA1 of URL under TOKEN in base64, computed with OpenSSL.
SIGNATURE = "/Jyx6hAEWDHKY1ULJ91cIZrAjXk="
KEYS = Keys(bearer=("old", "new-clé"), twilio_auth_tokens=(TOKEN,), basic={"jam": "b:onz"}, signing=("k1", "k2"))
ALL = ("bearer", "twilio_signature", "basic", "signed_path")


def upgrade(path: str = "/v1/relay/twilio", query: str = "", token: str | None = None, **headers: str) -> Upgrade:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Upgrade(path, query, {"host": "voice.example.com", **names}, secure=True, token=token)


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def test_twilio_documents_this_signature() -> None:
    """The example on Twilio's security page."""
    form = {
        "CallSid": "CA1234567890ABCDE",
        "Caller": "+14158675309",
        "Digits": "1234",
        "From": "+14158675309",
        "To": "+18005551212",
    }
    signature = twilio_signature("12345", "https://mycompany.com/myapp.php?foo=1&bar=2", form)
    assert signature == "RSOYDt4T1cUTdK1PDd93/VVr8B8="


def test_a_websocket_is_signed_by_its_url_alone() -> None:
    assert twilio_signature(TOKEN, URL) == SIGNATURE


@pytest.mark.parametrize(
    "signed",
    [
        URL,
        URL + "/",
        "https://voice.example.com/v1/relay/twilio",
        "wss://voice.example.com:443/v1/relay/twilio",
    ],
)
def test_spellings_of_the_same_url_count(signed: str) -> None:
    assert twilio_signed(twilio_signature(TOKEN, signed), URL, ["another", TOKEN])


@pytest.mark.parametrize(
    "signed",
    [
        "wss://voice.example.com/v1/relay/telnyx",
        "wss://other.example.com/v1/relay/twilio",
        "wss://voice.example.com:8443/v1/relay/twilio",
        "ws://voice.example.com/v1/relay/twilio",
        URL + "?call=1",
    ],
)
def test_another_url_does_not(signed: str) -> None:
    assert not twilio_signed(twilio_signature(TOKEN, signed), URL, [TOKEN])


@pytest.mark.parametrize(
    "request_",
    [
        upgrade(authorization="Bearer old"),
        upgrade(authorization="bearer  new-clé "),
        upgrade(authorization=basic("jam:b:onz")),
        upgrade(x_twilio_signature=SIGNATURE),
        upgrade(token=sign_path("k2", "/v1/relay/twilio", int(NOW) + 60)),
    ],
)
def test_any_one_allowed_scheme_is_enough(request_: Upgrade) -> None:
    assert refuse(request_, ALL, KEYS, NOW) is None
    assert refuse(request_, (), KEYS, NOW) == "bad_credentials"


@pytest.mark.parametrize(
    "request_",
    [
        upgrade(authorization="Bearer newer"),
        upgrade(authorization="Bearer "),
        upgrade(authorization="old"),
        upgrade(authorization="Bearer \ud800\x00é"),
        upgrade(authorization=basic("jam:wrong")),
        upgrade(authorization=basic("jam:b:onz").replace("Basic", "Bearer")),
        upgrade(authorization="Basic !!!"),
        upgrade(authorization="Basic " + base64.b64encode(b"\xff\xfe").decode()),
        upgrade(x_twilio_signature=SIGNATURE[:-2] + "A="),
        upgrade(x_twilio_signature="x" * 10_000),
        upgrade(token=sign_path("k3", "/v1/relay/twilio", int(NOW) + 60)),
        upgrade(token=sign_path("k1", "/v1/asterisk", int(NOW) + 60)),
        upgrade(token=sign_path("k1", "/v1/relay/twilio", int(NOW))),
        upgrade(token="." * 90),
    ],
)
def test_wrong_credentials_are_refused(request_: Upgrade) -> None:
    assert refuse(request_, ALL, KEYS, NOW) == "bad_credentials"


def test_no_credentials_are_refused_unless_no_key_is_set() -> None:
    assert refuse(upgrade(), ALL, KEYS, NOW) == "no_credentials"
    assert refuse(upgrade(), ALL, Keys(bearer=("only",)), NOW) == "no_credentials"
    assert refuse(upgrade(), ALL, Keys(), NOW) is None


def test_an_empty_key_opens_nothing() -> None:
    keys = Keys(bearer=("",), signing=("",), basic={"jam": "b:onz"})
    assert refuse(upgrade(authorization="Bearer "), ALL, keys, NOW) == "bad_credentials"
    assert not token_valid(sign_path("", "/v1/voice", int(NOW) + 9), "/v1/voice", [""], NOW)


def test_a_signed_path_has_this_form() -> None:
    """HMAC-SHA256 of path, line feed and expiry, computed with OpenSSL."""
    token = sign_path("a-made-up-signing-key", "/v1/asterisk", 1_900_000_000)
    assert token == "1900000000.eIe742bSBxVFX8N4ZqbHt5sXZb2rwWkCHtMcZeiY6hY"
    assert token_valid(token, "/v1/asterisk", ["a-made-up-signing-key"], NOW)
    assert not token_valid("0" + token, "/v1/asterisk", ["a-made-up-signing-key"], NOW)


def test_forwarded_headers_are_believed_only_where_told() -> None:
    behind = Upgrade(
        "/v1/relay/twilio",
        "",
        {
            "host": "10.0.0.7:8080",
            "x-forwarded-host": "voice.example.com, inner",
            "x-forwarded-proto": "https",
            "x-twilio-signature": SIGNATURE,
        },
    )
    assert refuse(behind, ALL, KEYS, NOW) == "bad_credentials"
    assert refuse(behind, ALL, KEYS, NOW, trust_forwarded=True) is None
    assert refuse(behind, ALL, KEYS, NOW, public_url="https://voice.example.com/") is None


def test_the_signed_url_holds_query_and_token() -> None:
    assert auth.request_url(upgrade(query="a=1")) == URL + "?a=1"
    assert auth.request_url(upgrade(token="9.x")) == URL + "/9.x"
    assert auth.request_url(upgrade(query="token=9.x", token="9.x")) == URL + "?token=9.x"


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True),
        ("https://voice.example.com", True),
        ("https://voice.example.com:443", True),
        ("https://console.example.com", True),
        ("https://console.example.com.evil.org", False),
        ("https://evil.org", False),
        ("http://voice.example.com", False),
        ("null", False),
        ("https://[", False),
        ("https://voice.example.com:99999", False),
    ],
)
def test_browsers_connect_from_known_pages_only(origin: str | None, allowed: bool) -> None:
    headers = {} if origin is None else {"origin": origin}
    refusal = refuse(
        upgrade(authorization="Bearer old", **headers),
        ALL,
        KEYS,
        NOW,
        allowed_origins=("https://Console.example.com/",),
    )
    assert (refusal is None) is allowed


def test_every_page_may_connect_where_told() -> None:
    assert auth.origin_allowed("https://evil.org", URL, ["*"])


def test_keys_are_not_shown() -> None:
    assert "old" not in repr(KEYS)


@given(
    authorization=st.text(max_size=60),
    host=st.text(max_size=30),
    origin=st.none() | st.text(max_size=30),
    token=st.none() | st.text(max_size=60),
)
def test_nothing_a_stranger_sends_raises_or_opens(
    authorization: str, host: str, origin: str | None, token: str | None
) -> None:
    headers = {"authorization": authorization, "host": host, "x-twilio-signature": authorization}
    if origin is not None:
        headers["origin"] = origin
    assert refuse(Upgrade("/v1/voice", "", headers, token=token), ALL, KEYS, NOW) is not None
