"""The chart renders for several shapes; what it renders is valid to Kubernetes, to promtool and to the service itself."""

import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from deploy.helm.fetch_helm import fetch
from service.settings import load_settings

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "voicepace"
SHAPES = {"default": [], **{path.stem: ["--values", str(path)] for path in sorted((CHART / "ci").glob("*.yaml"))}}
# Not part of Kubernetes itself, so that it has no schema for them.
CUSTOM = {"PodMonitor", "PrometheusRule", "ScaledObject"}
KUBERNETES = ("1.29", "1.35")

pytestmark = pytest.mark.prove

Object = dict[str, Any]


@pytest.fixture(scope="session")
def helm(request: pytest.FixtureRequest) -> Path:
    """The helm binary, downloaded once into pytest's cache."""
    return fetch(Path(request.config.cache.mkdir("helm")))


def run(helm: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(helm), *arguments], capture_output=True, text=True, timeout=120)


@pytest.fixture(params=SHAPES, ids=list(SHAPES))
def rendered(request: pytest.FixtureRequest, helm: Path) -> list[Object]:
    """Every object of one shape."""
    done = run(helm, "template", "release", str(CHART), "--namespace", "calls", *SHAPES[request.param])
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def kind(objects: list[Object], name: str) -> Object | None:
    found = [item for item in objects if item["kind"] == name]
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize("shape", SHAPES)
def test_helm_finds_no_fault(helm: Path, shape: str) -> None:
    done = run(helm, "lint", "--strict", str(CHART), *SHAPES[shape])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", KUBERNETES)
def test_objects_are_valid_to_kubernetes(rendered: list[Object], version: str) -> None:
    checked = [item for item in rendered if item["kind"] not in CUSTOM]
    assert {"StatefulSet", "Service", "ConfigMap", "NetworkPolicy"} <= {item["kind"] for item in checked}
    for item in checked:
        kubernetes_validate.validate(item, version, strict=True)


def test_rules_are_those_of_the_repository_and_valid(rendered: list[Object], tmp_path: Path) -> None:
    rules = kind(rendered, "PrometheusRule")
    if rules is None:
        return
    names = {rule.get("alert") for group in rules["spec"]["groups"] for rule in group["rules"]}
    source = CHART.parents[1] / "prometheus" / "rules"
    assert names == {
        rule.get("alert")
        for path in source.glob("*.yml")
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
    }
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump(rules["spec"]))
    assert subprocess.run(["promtool", "check", "rules", path], capture_output=True).returncode == 0


def test_the_service_accepts_its_settings(rendered: list[Object], tmp_path: Path) -> None:
    config = next(item for item in rendered if item["kind"] == "ConfigMap" and "voicepace.toml" in item["data"])
    path = tmp_path / "voicepace.toml"
    path.write_text(config["data"]["voicepace.toml"])
    settings = load_settings(config_file=path, environ={})
    pod = kind(rendered, "StatefulSet")["spec"]["template"]["spec"]
    longest_s = min(settings.server.drain_s, settings.server.max_call_s)
    assert pod["terminationGracePeriodSeconds"] >= longest_s + 10


def test_a_pod_is_confined(rendered: list[Object]) -> None:
    pod = kind(rendered, "StatefulSet")["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["enableServiceLinks"] is False
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"/cache", "/tmp", "/dev/shm"}


def test_gpus_are_asked_for_on_nodes_that_have_them(rendered: list[Object]) -> None:
    pod = kind(rendered, "StatefulSet")["spec"]["template"]["spec"]
    gpus = pod["containers"][0]["resources"]["limits"].get("nvidia.com/gpu", 0)
    assert bool(gpus) == ("nodeSelector" in pod)


def test_scaling_replaces_the_fixed_number_of_replicas(rendered: list[Object]) -> None:
    scaler = kind(rendered, "HorizontalPodAutoscaler") or kind(rendered, "ScaledObject")
    stateful = kind(rendered, "StatefulSet")
    assert (scaler is None) == ("replicas" in stateful["spec"])
    if scaler is not None:
        assert scaler["spec"]["scaleTargetRef"]["name"] == stateful["metadata"]["name"]
        assert "voicepace_calls" in str(scaler)
        assert "voicepace_predicted_gap_seconds" in str(scaler)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ("autoscaling.kind=cron", "autoscaling"),
        ("replicas=0", "replicas"),
        ("cache.size=plenty", "cache"),
        ("settings.auth.api_keys=secret", "api_keys"),
        ("netwrokPolicy.enabled=true", "netwrokPolicy"),
    ],
)
def test_a_wrong_value_is_refused_by_name(helm: Path, wrong: str, named: str) -> None:
    done = run(helm, "template", "release", str(CHART), "--set", wrong)
    assert done.returncode != 0
    assert named in done.stderr


def test_values_stay_readable() -> None:
    assert len((CHART / "values.yaml").read_text().splitlines()) < 150
