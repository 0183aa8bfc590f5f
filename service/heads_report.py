"""`voicepace heads report`: do the heads still fit the traffic of a running service?"""

import argparse
import json
import sys
from dataclasses import asdict
from urllib.request import urlopen

from service.heads_fit import in_words, read_fit

_TIMEOUT_S = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds this command's flags."""
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="of the service (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON document as the last line")


def run(args: argparse.Namespace) -> int:
    """0: they fit, or it cannot be told yet; 1: retrain; 2: the service does not answer."""
    try:
        with urlopen(f"{args.url.rstrip('/')}/metrics", timeout=_TIMEOUT_S) as response:
            fit = read_fit(response.read().decode())
    except (OSError, ValueError) as error:
        print(f"voicepace heads report: {args.url}: {error}", file=sys.stderr)
        return 2
    print(in_words(fit))
    if args.json:
        print(json.dumps(asdict(fit) | {"retrain": fit.retrain}))
    return 1 if fit.retrain else 0
