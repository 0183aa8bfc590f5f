import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from urllib.parse import urlsplit

from service.protocols import catalog
from service.protocols.catalog import CATALOG
from service.protocols.jambonz import SETUP

GUIDE = Path(catalog.__file__).with_name("TELEPHONY.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)


def test_the_table_names_every_dialect_and_its_address() -> None:
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| `(/v1/[a-z/]+)` \|", GUIDE, re.MULTILINE))
    assert rows == {name: entry.path for name, entry in CATALOG.items() if name != "native"}


def test_the_table_recommends_what_the_catalog_allows() -> None:
    schemes = {
        "bearer": "bearer",
        "basic": "basic",
        "signed path": "signed_path",
        "request signature": "twilio_signature",
    }
    rows = re.findall(r"^\| `([a-z-]+)` \| `/v1/[a-z/]+` \| \w+ \| ([a-z, ]+) \|", GUIDE, re.MULTILINE)
    assert len(rows) == len(CATALOG) - 1
    for name, cell in rows:
        assert {schemes[scheme] for scheme in cell.split(", ")} <= set(CATALOG[name].auth)


def test_every_script_is_well_formed_and_points_at_a_known_address() -> None:
    paths = {entry.path for entry in CATALOG.values()}
    scripts = blocks("xml")
    assert len(scripts) == 6
    for script in scripts:
        root = ElementTree.fromstring(script)
        [url] = [
            text
            for element in root.iter()
            for text in (*element.attrib.values(), element.text or "")
            if text.startswith("wss://")
        ]
        assert urlsplit(url).path.removesuffix("/EXPIRY.SIGNATURE") in paths


def test_jambonz_is_answered_as_shown() -> None:
    [shown] = blocks("json")
    assert json.loads(shown) == SETUP
