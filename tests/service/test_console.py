"""The console in a real browser: a call seen and heard, interrupts, a lost connection, keys, and its pure parts."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from engine.api import GenerateRequest
from engine.fake import Script, ScriptedEngine
from service.auth import sign_path, token_valid
from service.console_page import assets
from service.credentials import TOKEN_LIFE_S, Credentials
from service.settings import Settings, load_settings
from tests.service.browser import Page, chromium
from tests.service.dropping_proxy import dropping_proxy
from tests.service.running import Running, running_service
from tts_adapter.voices.tone import ToneVoice

REPLY = "Sure, I can help you with that. Could you tell me a little more about what you need today?"
LONG_REPLY = " ".join(["The bakery opens at seven and the bread is warm by half past."] * 6)
CALL = "import('/console/console.js').then(({ call }) => "


class Scripted(ScriptedEngine):
    """Remembers the prompts, which hold the history as the model sees it."""

    def __init__(self) -> None:
        script = Script(first_token_s=0.02, step_time_s=0.03, burst_sizes=(1, 2, 3))
        super().__init__(self._answer, script)
        self.prompts: list[str] = []

    def _answer(self, request: GenerateRequest) -> str:
        self.prompts.append(self.tokenizer.decode(list(request.prompt_token_ids)))
        return LONG_REPLY if "at length" in self.prompts[-1] else REPLY


def settings(**flags: str) -> Settings:
    named = {key.replace("__", "."): value for key, value in flags.items()}
    return load_settings({"scripted.enabled": "true", **named}, environ={})


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with running_service(settings(), Scripted(), ToneVoice(ms_per_character=15)) as running:
        yield running


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium(tmp_path_factory.mktemp("chromium")) as page:
        yield page


@pytest.fixture
def page(browser: Page, service: Running) -> Iterator[Page]:
    """The console, freshly opened; a test that does not expect errors in the browser's console gets none."""
    browser.errors.clear()
    browser.open(service.http)
    yield browser
    browser.open("about:blank")
    assert browser.errors == []


def say(page: Page, text: str) -> None:
    page.evaluate("document.querySelector('#text').focus()")
    page.type(text)
    page.press("Enter")


def player(page: Page, attribute: str) -> Any:
    return page.evaluate(f"{CALL} call.player.{attribute})")


def played(page: Page, seconds: float) -> None:
    """Wait until so much of a reply has been played."""
    page.until(f"Number(document.querySelector('#playing').textContent.split(' ')[1]) >= {seconds}")


def prompts(service: Running) -> list[str]:
    assert isinstance(service.engine, Scripted)
    return service.engine.prompts


def replied(page: Page, count: int = 1) -> None:
    """Wait until the figures of a whole reply are there."""
    page.until(f"document.querySelectorAll('.reply').length === {count}")
    page.until("document.querySelector('#interrupt').disabled")


def test_a_whole_call_is_seen_and_heard(page: Page, service: Running) -> None:
    say(page, "hello")
    replied(page)
    assert page.text(".said") == "hello"
    assert page.text(".reply") == REPLY
    assert page.text("#announce") == REPLY
    assert page.text("#status") == "In a call"

    seconds = 0.015 * len(REPLY)
    assert player(page, "frames") >= seconds / 0.02 * 0.9
    assert player(page, "played_ms") == pytest.approx(player(page, "total_ms"), abs=1)
    assert player(page, "total_ms") >= seconds * 900
    assert player(page, "peak") > 0.05
    assert player(page, "context.sampleRate") == 22050

    assert re.fullmatch(r"[\d.]+ %", page.text("#share"))
    assert float(page.text("#acceptance")) > 1
    assert page.text("#step") == "tokens per step of 30.0 ms"
    assert page.evaluate("document.querySelectorAll('#stages i').length") == 4
    assert page.text("#first-audio").endswith("ms")

    say(page, "go on")
    replied(page, 2)
    assert REPLY in prompts(service)[-1], "what was played to its end counts as heard"


def test_tokens_show_their_bursts(page: Page) -> None:
    say(page, "hello")
    replied(page)
    tokens = page.evaluate("[...document.querySelectorAll('.reply .token')].map((span) => span.className)")
    colours = [int(re.search(r"burst-(\d)", name)[1]) for name in tokens]  # type: ignore[index]
    same_as_next = [one == next_one for one, next_one in zip(colours, [*colours[1:], -1], strict=True)]
    assert [("accepted" in name) for name in tokens] == same_as_next
    assert len(set(colours)) > 3
    assert any(same_as_next)
    drawn = """(() => { const c = document.querySelector('#chart');
      const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
      return new Set(new Uint32Array(data.buffer)).size; })()"""
    page.until(f"{drawn} > 6")
    assert "gaps over 20 ms" in page.evaluate("document.querySelector('#chart').ariaLabel")


def test_an_interrupt_by_key_silences_and_shows_what_was_heard(page: Page, service: Running) -> None:
    say(page, "tell me at length")
    played(page, 0.6)
    page.press("Escape")
    page.until("document.querySelector('.reply .unheard')")
    assert page.evaluate(f"{CALL} call.player.sources.size + call.player.waiting)") in (0, None)
    heard = page.evaluate(
        "[...document.querySelectorAll('.reply .token')].map((t) => t.firstChild?.data ?? '').join('')"
    )
    kept = re.search("“(.+)”", page.text("#heard"))
    assert kept is not None
    assert LONG_REPLY.startswith(kept[1])
    assert heard.strip().startswith(kept[1])
    assert len(kept[1]) < len(LONG_REPLY) / 2
    assert page.text("#announce") == f"Interrupted. Heard: {kept[1]}"
    assert service.engine.running == 0

    frames = player(page, "frames")
    say(page, "go on")
    replied(page, 2)
    assert player(page, "frames") > frames
    assert f"assistant\n{kept[1]}\nuser\ngo on" in prompts(service)[-1]


def test_the_interrupt_button_follows_the_reply(page: Page) -> None:
    assert page.evaluate("document.querySelector('#interrupt').disabled")
    say(page, "tell me at length")
    page.until("!document.querySelector('#interrupt').disabled")
    played(page, 0.3)
    page.click("#interrupt")
    page.until("document.querySelector('.reply .unheard') && document.querySelector('#interrupt').disabled")


def test_talking_interrupts_where_it_is_switched_on(page: Page) -> None:
    page.click("#talk")
    page.until("document.querySelector('#hint').textContent.startsWith('Talk while')")
    page.evaluate("window.SpeechRecognition = undefined")
    say(page, "tell me at length")
    page.until("document.querySelector('.reply')")
    page.until("document.querySelector('.reply .unheard')")
    page.click("#talk")


# Stands in for the browser's recogniser, which headless browsers do not have: the test says what was recognised.
RECOGNISER = """window.SpeechRecognition = window.webkitSpeechRecognition = class {
  start() { window.recogniser = this; }
  stop() { this.onend(); }
  hear(transcript, isFinal) { this.onresult({ results: [Object.assign([{ transcript }], { isFinal })] }); }
};"""


def test_speaking_sends_words_as_they_are_recognised(browser: Page, service: Running) -> None:
    browser.errors.clear()
    script = browser.command("Page.addScriptToEvaluateOnNewDocument", source=RECOGNISER)
    browser.open(service.http)
    browser.click("#speak")
    browser.until("window.recogniser && document.querySelector('#status').dataset.state === 'open'")
    assert browser.evaluate("document.querySelector('#speak').ariaPressed") == "true"
    browser.evaluate("recogniser.hear('hello the', false)")
    assert browser.text(".said.hypothesis") == "hello the"
    browser.evaluate("recogniser.hear('hello there', true), recogniser.onend()")
    replied(browser)
    assert browser.evaluate("[...document.querySelectorAll('.said')].map((e) => e.textContent)") == ["hello there"]
    assert "user\nhello there\n" in prompts(service)[-1]
    assert browser.text("#speak") == "Speak"
    browser.click("#speak")
    browser.evaluate("recogniser.onerror({ error: 'no-speech' }), recogniser.onend()")
    assert "no-speech" in browser.text("#hint")
    browser.command("Page.removeScriptToEvaluateOnNewDocument", identifier=script["identifier"])
    browser.open("about:blank")
    assert browser.errors == []


def test_a_lost_connection_comes_back_and_says_so(browser: Page, service: Running) -> None:
    browser.errors.clear()
    with dropping_proxy(service.port) as proxy:
        browser.open(proxy.http)
        say(browser, "tell me at length")
        browser.until("document.querySelector('.reply')")
        proxy.broken = True
        proxy.drop()
        browser.until("document.querySelector('#status').textContent.includes('cannot be reached')")
        assert "The connection was lost." in browser.text("#log")
        assert not player(browser, "playing")
        proxy.broken = False
        browser.until("document.querySelector('#status').dataset.state === 'open'")
        assert "Connected again. This is a new call" in browser.text("#log")
        say(browser, "hello")
        browser.until("[...document.querySelectorAll('.reply')].at(-1).textContent.endsWith('today?')")
        browser.until("document.querySelector('#interrupt').disabled")
        browser.click("#call")
        assert browser.text("#status") == "Not in a call"
    # The browser itself reports what the network refused; the page adds nothing to that.
    assert [error for error in browser.errors if "net::ERR_" not in error] == []


def test_a_key_is_asked_for_and_opens(browser: Page) -> None:
    locked = settings(auth__signing_keys='["key-of-the-test"]', auth__api_keys='["api-key-of-the-test"]')
    with running_service(locked, Scripted(), ToneVoice(ms_per_character=5)) as guarded:
        browser.open(guarded.http)
        assert browser.evaluate("document.querySelector('#access').hidden")
        browser.click("#call")
        browser.until("document.activeElement.id === 'key'")
        assert browser.text("#status") == "A key is needed"
        for key, status in [
            ("not-the-key", "The key was refused"),
            (sign_path("another-key", "/v1/voice", 4_000_000_000), "The key was refused"),
            (sign_path("key-of-the-test", "/v1/voice", 4_000_000_000), "In a call"),
            ("api-key-of-the-test", "In a call"),
        ]:
            browser.evaluate("document.querySelector('#key').value = '', document.querySelector('#key').focus()")
            browser.type(key)
            browser.evaluate("document.querySelector('#status').textContent = ''")
            browser.press("Enter")
            browser.until(f"document.querySelector('#status').textContent === '{status}'")
            if status == "In a call":
                assert browser.evaluate("document.querySelector('#access').hidden")
                browser.click("#call")
                browser.evaluate("document.querySelector('#access').hidden = false")
    browser.errors.clear()  # the 401 that the browser reports is what was asked for


def test_a_voice_token_needs_a_key_and_opens_one_path_for_a_minute() -> None:
    options = settings(auth__api_keys='["api-key-of-the-test"]').auth
    token = Credentials(options).path_token("/v1/voice")
    assert not token_valid(token, "/v1/voice", ["api-key-of-the-test"], 0), "the API key itself signs nothing"
    shared = settings(auth__api_keys='["api-key-of-the-test"]', auth__signing_keys='["of-all-replicas"]').auth
    token = Credentials(shared).path_token("/v1/voice")
    expires_s = int(token.partition(".")[0])
    assert token_valid(token, "/v1/voice", ["of-all-replicas"], expires_s - TOKEN_LIFE_S)
    assert not token_valid(token, "/v1/voice", ["of-all-replicas"], expires_s)
    assert not token_valid(token, "/v1/jambonz", ["of-all-replicas"], expires_s - TOKEN_LIFE_S)
    assert Credentials(settings().auth).path_token("/v1/voice") == ""


def test_a_full_service_and_a_call_that_it_ends_are_told(browser: Page) -> None:
    small = settings(server__max_calls="1", server__max_waiting_calls="0", server__idle_timeout_s="1.5")
    with running_service(small, Scripted(), None) as full:
        browser.open(full.http)
        with connect(full.ws + "/v1/voice", proxy=None):
            browser.click("#call")
            browser.until("document.querySelector('#status').textContent.includes('takes no more calls')")
            assert browser.text("#call") == "Hang up"
        browser.until("document.querySelector('#status').dataset.state === 'open'")
        assert "Connected again" not in browser.text("#log"), "no call was lost"
        browser.until("document.querySelector('#status').textContent === 'The service ended the call (idle)'")
        assert browser.text("#call") == "Start call"
    browser.errors.clear()  # the refused upgrade that the browser reports


@pytest.mark.engine
def test_the_real_engine_and_voice_in_the_console(browser: Page, real_service: Running) -> None:
    browser.errors.clear()
    browser.open(real_service.http)
    say(browser, "Say one short sentence about bread.")
    browser.until("document.querySelector('#first-audio').textContent.includes('s')", 90)
    played(browser, 0.5)
    assert player(browser, "peak") > 0.01
    assert browser.text("#announce") == browser.text(".reply") != ""
    assert float(browser.text("#acceptance")) >= 1
    browser.open("about:blank")
    assert browser.errors == []


def test_without_a_voice_the_call_goes_on_as_text(browser: Page) -> None:
    with running_service(settings(), Scripted(), None) as silent:
        browser.errors.clear()
        browser.open(silent.http)
        say(browser, "hello")
        browser.until("document.querySelector('#first-audio').textContent === 'no audio'")
        assert browser.text(".reply") == REPLY
        assert "without a voice" in browser.text("#log")
        say(browser, "go on")
        browser.until("document.querySelectorAll('.reply').length === 2")
        assert REPLY in prompts(silent)[-1]
        browser.click("#call")
    assert browser.errors == []


def test_a_text_call_reports_what_was_shown(page: Page, service: Running) -> None:
    page.click("#hear")
    say(page, "tell me at length")
    page.until("document.querySelectorAll('.reply .token').length > 12")
    page.press("Escape")
    page.until("document.querySelector('#heard').textContent.startsWith('Kept')")
    assert page.text("#status") == "In a call, text only"
    kept = re.search("“(.+)”", page.text("#heard"))
    assert kept is not None
    assert LONG_REPLY.startswith(kept[1])
    assert player(page, "frames") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_on_a_phone_in_both_schemes(page: Page, scheme: str) -> None:
    page.command("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=1, mobile=True)
    page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    say(page, "tell me at length")
    page.until("document.querySelectorAll('.reply .token').length > 30")
    page.press("Escape")
    page.until("document.querySelector('.reply .unheard')")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") == (scheme == "dark")
    small = "[...document.querySelectorAll('button, #text')].filter((e) => e.offsetHeight && e.offsetHeight < 40)"
    assert page.evaluate(f"{small}.map((e) => e.id)") == []
    assert page.evaluate(POOR_CONTRAST) == []
    page.command("Emulation.clearDeviceMetricsOverride")
    page.command("Emulation.setEmulatedMedia", features=[])


# Contrast by WCAG 2.2, 1.4.3: every visible text against the nearest background behind it; disabled controls are exempt.
POOR_CONTRAST = """(() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parts(colour).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    const colour = getComputedStyle(e).backgroundColor;
    return parts(colour)[3] === 0 ? behind(e.parentElement) : colour;
  };
  const poor = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || !e.offsetHeight || e.closest(':disabled, noscript')) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) poor.push(`${e.tagName}.${e.className}#${e.id}: ${e.textContent.slice(0, 20)}`);
  }
  return poor;
})()"""


def test_everything_is_reached_by_keyboard_and_named(page: Page) -> None:
    page.evaluate("document.body.tabIndex = -1, document.body.focus()")
    reached = []
    for _ in range(16):
        page.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert {"call", "log", "text", "send", "hear", "talk", "SUMMARY", "strip"} <= set(reached)
    nameless = """[...document.querySelectorAll('input, textarea, select, button, [tabindex]')].filter((e) =>
      e.tabIndex >= 0 && !(e.labels?.length || e.ariaLabel || e.textContent.trim())).map((e) => e.id)"""
    assert page.evaluate(nameless) == []
    assert page.evaluate("document.querySelector('#status').role") == "status"


def test_the_page_asks_nobody_else_and_may_do_nothing_else(service: Running) -> None:
    page = httpx.get(service.http + "/")
    policy = dict(rule.split(" ", 1) for rule in page.headers["content-security-policy"].split("; "))
    assert policy.pop("default-src") == "'none'"
    assert set(policy.values()) <= {"'self'", "'none'"}
    for name, asset in assets().items():
        answer = httpx.get(f"{service.http}/console/{name}")
        assert answer.content == asset.body
        assert answer.headers["content-security-policy"] == page.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        outside = re.findall(rb"(?:https?:)?//[\w.-]+\.\w+", asset.body)
        assert set(outside) <= {b"http://www.w3.org"}, name  # the name of SVG, which is never fetched
    again = httpx.get(service.http + "/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for missing in ("nothing.js", "..%2Fapp.py", "%2Fetc%2Fpasswd"):
        assert httpx.get(f"{service.http}/console/{missing}").status_code == 404


def call_module(page: Page, name: str, body: str) -> Any:
    return page.evaluate(f"import('/console/{name}.js').then((m) => {{ {body} }})")


def test_gap_figures(page: Page) -> None:
    body = (
        "const g = [10, 20, 20.5, 50]; return [m.shareWithin(g), m.quantile(g, .5), m.quantile(g, .99), m.starved(g)]"
    )
    assert call_module(page, "gaps", body) == [0.5, 20, 50, 30.5]
    nothing = "return [m.shareWithin([]), m.quantile([], .5), m.starved([])]"
    assert call_module(page, "gaps", nothing) == [None, None, 0]


def test_acceptance_counts_whole_bursts_and_tokens_without_text(page: Page) -> None:
    body = """const t = (index, burst) => ({ index, burst, at_ms: index * 10, burst_ms: burst * 45 });
      const tokens = [t(0, 0), t(1, 1), t(2, 1), t(3, 1), t(5, 2), t(6, 3)];
      return [m.acceptanceLength(tokens), m.acceptanceLength(tokens.slice(0, 1)), m.acceptedMarks(tokens),
              m.burstsOf(tokens).map((b) => [b.at_ms, b.count])]"""
    length, first, marks, bursts = call_module(page, "bursts", body)
    assert length == 2  # six tokens, the one at index 4 without text, in three whole bursts
    assert first is None
    assert marks == [False, True, True, False, False, False]
    assert bursts == [[0, 1], [45, 3], [90, 1], [135, 1]]


def test_what_is_asked_for_at_every_token_is_drawn_sparingly_and_its_end_is_drawn(page: Page) -> None:
    body = """let [newest, asked, begun] = [0, 0, performance.now()];
      const drawn = [];
      const redraw = new m.Redraw(() => drawn.push(newest));
      return new Promise((done) => {
        const timer = setInterval(() => {
          newest += 1;
          redraw.ask();
          if (newest < 40) return;
          clearInterval(timer);
          asked = performance.now() - begun;
          setTimeout(() => done([drawn, asked]), 500);
        }, 10);
      });"""
    drawn, asked_ms = call_module(page, "redraw", body)
    assert 2 <= len(drawn) <= asked_ms / 125 + 2
    assert drawn == sorted(drawn)
    assert drawn[-1] == 40


def test_the_jitter_buffer_counts_only_what_was_played(page: Page) -> None:
    body = """const s = new m.Schedule(100);
      const starts = [s.place(50, 0), s.place(50, 10), s.place(50, 500)];
      return [starts, s.underruns, [0, 100, 130, 250, 599, 620, 900].map((now) => s.played(now)), s.waiting(620)]"""
    starts, underruns, played, waiting = call_module(page, "schedule", body)
    assert starts == [100, 150, 600]
    assert underruns == 1
    assert played == [0, 0, 30, 100, 100, 120, 150]
    assert waiting == 30


def test_speech_must_be_loud_and_last(page: Page) -> None:
    body = """const onsets = (levels) => { const d = new m.SpeechOnset();
        return levels.map((db, n) => d.push(db, n * 30)).filter(Boolean).length; };
      const room = Array(20).fill(-60), speech = Array(10).fill(-25), slam = Array(3).fill(-10);
      return [onsets([...room, ...speech]), onsets([...room, ...slam, ...room]), onsets(room),
              onsets([...room, ...speech, ...room, ...speech]), onsets(Array(60).fill(-30)),
              m.loudnessDb([0.1, -0.1])]"""
    once, slam, silence, twice, steady, db = call_module(page, "loudness", body)
    assert (once, slam, silence, twice, steady) == (1, 0, 0, 2, 0)
    assert db == pytest.approx(-20, abs=0.01)


def test_attempts_wait_longer_and_not_for_ever(page: Page) -> None:
    body = "return [0, 1, 2, 9].map((n) => [m.waitMs(n, 0), m.waitMs(n, 1)])"
    assert call_module(page, "connection", body) == [[250, 500], [500, 1000], [1000, 2000], [7500, 15000]]


def test_a_missing_browser_is_an_error_not_a_skip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AssertionError, match="apt-get install chromium"), chromium(tmp_path):
        pass
