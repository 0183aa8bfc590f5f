"""Takes the pictures of the console: `python -m tests.service.console_pictures FOLDER`.

The engine is the scripted one at the pace of the reference target (45 ms steps, 2.4 tokens on average) and the voice a
tone; everything shown is what the page then measures.
"""

import base64
import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

from engine.api import GenerateRequest
from engine.fake import Script, ScriptedEngine
from service.settings import load_settings
from tests.service.browser import Page, chromium
from tests.service.running import running_service
from tts_adapter.voices.tone import ToneVoice

FIRST = "We open at seven in the morning, Monday to Saturday, and at eight on Sundays. The bread is fresh by half past."
SECOND = (
    "It does. A sourdough loaf keeps for about four days in a paper bag; after that it is best toasted. "
    "Would you like me to put one aside for you this afternoon?"
)
SCRIPT = Script(first_token_s=0.11, step_time_s=0.045, burst_sizes=(1, 2, 2, 3, 4), seed=3)
COLOURS = 256


def reply(request: GenerateRequest) -> str:
    """The second prompt is the longer one."""
    return SECOND if len(request.prompt_token_ids) > 60 else FIRST


def shot(page: Page, width: int, height: int, scheme: str, scroll_to: str = "body") -> Image.Image:
    """What a screen of that size shows."""
    phone = width < 500
    page.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
    page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    page.evaluate("new Promise((done) => setTimeout(done, 500))")
    page.evaluate(f"document.querySelector('{scroll_to}').scrollIntoView({{block: 'start'}})")
    page.evaluate("document.querySelector('#log').scrollTop = 1e6")
    data = page.command("Page.captureScreenshot", format="png")["data"]
    return Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")


def save(image: Image.Image, path: Path) -> None:
    """As a small PNG."""
    palette = image.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, kmeans=2)
    image.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)


def converse(page: Page) -> None:
    """Two replies, the second interrupted."""
    page.evaluate("document.querySelector('#text').focus()")
    page.type("When do you open?")
    page.press("Enter")
    page.until("document.querySelector('.reply')")
    page.until("document.querySelector('#interrupt').disabled")
    page.type("Does sourdough keep until Friday?")
    page.press("Enter")
    page.until("document.querySelectorAll('.reply')[1]?.textContent.endsWith('afternoon?')")
    page.until("Number(document.querySelector('#playing').textContent.split(' ')[1]) > 3")
    page.press("Escape")
    page.until("document.querySelector('.reply .unheard')")
    page.evaluate("document.activeElement.blur()")


def main(folder: Path) -> None:
    """Write desktop-light, desktop-dark and phone."""
    settings = load_settings({"scripted.enabled": "true"}, environ={})
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        running_service(settings, ScriptedEngine(reply, SCRIPT), ToneVoice()) as service,
        chromium(Path(profile)) as page,
    ):
        page.command("Emulation.setDeviceMetricsOverride", width=1280, height=905, deviceScaleFactor=1, mobile=False)
        page.open(service.http)
        converse(page)
        save(shot(page, 1280, 905, "light"), folder / "desktop-light.png")
        save(shot(page, 1280, 905, "dark"), folder / "desktop-dark.png")
        screens = [shot(page, 390, 844, "light"), shot(page, 390, 844, "dark", ".figures")]
        phone = Image.new("RGB", (390 * 2 + 20, 844), "#8d95a3")
        for number, screen in enumerate(screens):
            phone.paste(screen, (410 * number, 0))
        save(phone, folder / "phone.png")
        page.open("about:blank")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
