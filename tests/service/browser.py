"""A headless Chromium driven by the DevTools protocol, for as long as a `with` block lasts."""

import contextlib
import itertools
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

FLAGS = (
    ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    + ["--no-default-browser-check", "--disable-extensions", "--disable-background-networking"]
    + ["--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-breakpad"]
    + ["--autoplay-policy=no-user-gesture-required", "--remote-debugging-port=0", "--hide-scrollbars"]
    # A microphone that beeps once a second, and nobody who must be asked for it.
    + ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
)
ANSWER_S = 120.0


class ScriptFailed(AssertionError):
    """JavaScript in the page threw."""


class Page:
    """One tab."""

    def __init__(self, socket: ClientConnection, session_id: str) -> None:
        self._socket = socket
        self._session_id = session_id
        self._ids = itertools.count(1)
        self.errors: list[str] = []  # what the browser's console shows as an error, and exceptions
        for domain in ("Runtime", "Log", "Page", "Network"):
            self.command(f"{domain}.enable")

    def command(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command and wait for its answer."""
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params, "sessionId": self._session_id}))
        while True:
            message = json.loads(self._socket.recv(ANSWER_S))
            if message.get("id") == number and message.get("sessionId") == self._session_id:
                assert "error" not in message, f"{method}: {message['error']}"
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description", details["text"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "assert"):
                self.errors.append(str([each.get("value", each.get("description")) for each in params["args"]]))
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    def open(self, url: str) -> None:
        """Go to `url` and wait until its modules have run."""
        self.evaluate("window.isOfThePageBefore = true")
        self.command("Page.navigate", url=url)
        self.until("!window.isOfThePageBefore && document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        answer = self.command(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise ScriptFailed(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def until(self, condition: str, within_s: float = 30) -> None:
        """Wait until a JavaScript expression is true, looking with every tick of the page."""
        self.evaluate(
            f"""new Promise((resolve, reject) => {{
              const end = performance.now() + {within_s * 1000};
              const look = () => {{
                if ({condition}) resolve();
                else if (performance.now() > end) reject(new Error("never: " + {json.dumps(condition)}));
                else setTimeout(look, 20);
              }};
              look();
            }})"""
        )

    def text(self, selector: str) -> str:
        """What an element says."""
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)}).textContent"))

    def click(self, selector: str) -> None:
        """Press the mouse in the middle of an element, as a person does."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        box = self.evaluate(f"document.querySelector({json.dumps(selector)}).getBoundingClientRect().toJSON()")
        at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2, "button": "left", "clickCount": 1}
        self.command("Input.dispatchMouseEvent", type="mousePressed", **at)
        self.command("Input.dispatchMouseEvent", type="mouseReleased", **at)

    def press(self, key: str) -> None:
        """Press and release a key in whatever has the focus."""
        code = {"Enter": 13, "Escape": 27, "Tab": 9, " ": 32}[key]
        text = {"Enter": {"text": "\r"}, " ": {"text": " "}}.get(key, {})
        named = {"key": key, "windowsVirtualKeyCode": code}
        self.command("Input.dispatchKeyEvent", type="keyDown", **named, **text)
        self.command("Input.dispatchKeyEvent", type="keyUp", **named)

    def type(self, text: str) -> None:
        """Put text into whatever has the focus."""
        self.command("Input.insertText", text=text)


@contextlib.contextmanager
def chromium(profile: Path) -> Iterator[Page]:
    """A fresh browser with one empty tab. `profile` is an empty folder of its own."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program, "the console is tested in Chromium, which is not installed: apt-get install chromium"
    command = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            with connect(_address(process), max_size=64 * 2**20, proxy=None) as socket:
                yield Page(socket, _attach(socket))
        finally:
            process.kill()
            process.communicate()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        if "DevTools listening on " in line:
            return line.split()[-1]
        seen.append(line)
    raise AssertionError(f"chromium did not start: {''.join(seen)[-1000:]}")


def _attach(socket: ClientConnection) -> str:
    """The session of the browser's one tab."""

    def ask(number: int, method: str, **params: Any) -> dict[str, Any]:
        socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(socket.recv(ANSWER_S))
            if message.get("id") == number:
                result: dict[str, Any] = message["result"]
                return result

    target = ask(-1, "Target.createTarget", url="about:blank")["targetId"]
    return str(ask(-2, "Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
