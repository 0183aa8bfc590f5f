"""The images and compose files: linted, confined, and their install steps executed as far as that goes without Docker."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import check_jsonschema
import jsonschema
import pytest
import yaml

from engine import embedded_model
from engine.profiles import PROFILES
from service.settings import load_settings
from tests.deploy.dockerfile import ancestry, stages

ROOT = Path(__file__).parents[2]
STAGES = stages(ROOT / "Dockerfile")
IMAGES = ("cpu", "gpu")
COMPILERS = re.compile(r"\b(gcc|g\+\+|clang|build-essential|cc|make)\b")
COMPOSE_SCHEMA = Path(check_jsonschema.__file__).parent / "builtin_schemas" / "vendor" / "compose-spec.json"


def environment(image: str) -> dict[str, str]:
    """The variables an image sets."""
    lines = [line for stage in ancestry(STAGES, image) for line in stage.all("ENV")]
    return dict(pair.split("=", 1) for line in lines for pair in line.split())


def test_hadolint_finds_no_fault() -> None:
    done = subprocess.run([Path(sys.executable).with_name("hadolint"), ROOT / "Dockerfile"], capture_output=True)
    assert done.returncode == 0, done.stdout.decode()


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_holds_no_compiler_and_does_not_run_as_root(image: str) -> None:
    made_of = ancestry(STAGES, image)
    assert not any(COMPILERS.search(run) for stage in made_of for run in stage.all("RUN"))
    users = [user for stage in made_of for user in stage.all("USER")]
    assert users
    assert all(user.split(":")[0] not in {"0", "root"} for user in users)
    assert sum(len(stage.all("HEALTHCHECK")) for stage in made_of) == 1
    assert "/readyz" in "".join(line for stage in made_of for line in stage.all("HEALTHCHECK"))


@pytest.mark.parametrize("image", IMAGES)
def test_the_variables_of_an_image_are_settings_that_exist(image: str) -> None:
    assert load_settings(environ=environment(image)).profile in PROFILES


@pytest.mark.parametrize("image", IMAGES)
def test_lock_files_of_an_image_fit_together_and_hold_what_the_service_needs(image: str) -> None:
    locks = re.findall(r"lock/\w+\.txt", " ".join(STAGES[f"{image}-packages"].all("COPY")))
    pins: dict[str, str] = {}
    for lock in locks:
        lines = [line for line in (ROOT / lock).read_text().splitlines() if line and not line.startswith("#")]
        assert all(re.fullmatch(r"[\w.-]+==\S+", line) for line in lines)
        for line in lines:
            name, version = line.split("==")
            assert pins.setdefault(name, version) == version, name
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"][image]]
    assert {re.split(r"[=<>\[]", line)[0] for line in wanted} <= pins.keys()


def test_everything_copied_is_in_the_build_context() -> None:
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] not in "#"]
    assert ignored[0] == "*"
    kept = {line[1:] for line in ignored if line.startswith("!")}
    sources = {
        word
        for stage in STAGES.values()
        for line in stage.all("COPY")
        if "--from" not in line
        for word in line.split()[:-1]
    }
    for source in sources - {"."}:
        assert (ROOT / source).exists()
        assert any(source == path or source.startswith(f"{path}/") for path in kept), source
    assert all((ROOT / path).exists() for path in kept)


@pytest.mark.parametrize("name", ["compose.yaml", "compose.gpu.yaml"])
def test_compose_files_are_valid_and_mount_what_exists(name: str) -> None:
    compose = yaml.safe_load((ROOT / name).read_text())
    jsonschema.validate(compose, json.loads(COMPOSE_SCHEMA.read_text()))
    for service in compose["services"].values():
        if "build" in service:
            assert service["build"]["target"] in IMAGES
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            assert source in compose.get("volumes", {}) or (ROOT / source).exists() or source == "./heads"


def test_the_service_in_compose_cannot_write_but_where_it_must() -> None:
    service = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["voicepace"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert [mount.split(":")[1] for mount in service["volumes"]] == ["/cache"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    grace_s = int(service["stop_grace_period"].removesuffix("s"))
    assert grace_s > load_settings(environ=environment("cpu")).server.drain_s


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The virtual environment that the CPU image copies, made by the image's own scripts with nothing else installed."""
    folder = tmp_path_factory.mktemp("image")
    context = folder / "source"
    for name in ("pyproject.toml", "README.md", "LICENSE", "lock", "engine", "service", "tts_adapter", "deploy/image"):
        source = ROOT / name
        copy = partial(shutil.copytree, ignore=shutil.ignore_patterns("*.so")) if source.is_dir() else shutil.copy
        (context / name).parent.mkdir(parents=True, exist_ok=True)
        copy(source, context / name)
    venv = folder / "venv"
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL", "VOICE"))
    }
    inherited["TORCH_INDEX"] = STAGES["cpu-packages"].all("ARG")[0].split("=", 1)[1]
    locks = [context / "lock" / "cpu.txt", context / "lock" / "piper.txt"]
    image = context / "deploy" / "image"
    for command in (
        [image / "install_packages.sh", venv, *locks],
        [image / "install_service.sh", venv, context],
    ):
        done = subprocess.run(command, env=inherited, capture_output=True, text=True, timeout=1200, cwd=folder)
        assert done.returncode == 0, done.stdout + done.stderr
    shutil.rmtree(context)
    # Compiled in the stage that has a compiler: its absence would be no error, only a slower engine.
    assert list(venv.glob("lib/python3*/site-packages/engine/native/_loops*.so"))
    return venv


@pytest.mark.prove
@pytest.mark.timeout(1500)
def test_the_installed_service_serves_on_a_read_only_root_as_another_user(built: Path, tmp_path: Path) -> None:
    """As in the image: user 10001, nothing writable but the cache and /tmp, no compiler on the path."""
    assert on_a_read_only_root(built, tmp_path / "cache", "--scripted.enabled", "true") == "healthy"


@pytest.mark.prove
@pytest.mark.engine
@pytest.mark.timeout(600)
def test_the_real_engine_and_voice_start_on_a_read_only_root(tmp_path: Path, model_cache_dir: Path) -> None:
    """What vLLM and torch keep on disk goes where the image lets them, too; ready means that a reply was made."""
    model = embedded_model.ready(model_cache_dir, print)
    shutil.copytree(model, tmp_path / "cache" / "voicepace" / model.name)
    assert on_a_read_only_root(Path(sys.prefix), tmp_path / "cache", source=ROOT) == "healthy"


def on_a_read_only_root(venv: Path, cache: Path, *flags: str, source: Path | None = None) -> str:
    """Serve from an environment that cannot be written to, as user 10001, until it is ready; the last line."""
    cache.mkdir(exist_ok=True)
    done = subprocess.run(
        ["unshare", "--mount", "bash", Path(__file__).with_name("read_only_root.sh"), venv, cache, *flags],
        env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "SOURCE": str(source or "")},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.online
@pytest.mark.timeout(900)
def test_every_package_of_the_gpu_image_can_be_had() -> None:
    """The GPU image's packages are found and fit each other; nothing is downloaded but what describes them."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--no-deps"]
    done = subprocess.run([*command, "-r", ROOT / "lock" / "gpu.txt"], capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr[-2000:]
