# syntax=docker/dockerfile:1
# Two images from one file:
#   docker build --target cpu -t voicepace:cpu .   engine, model and voice on a CPU, complete: nothing is downloaded at start
#   docker build --target gpu -t voicepace:gpu .   CUDA and vllm; the model's weights come into the cache volume
#
# Both run as user 10001 on a read-only root file system: what they write goes to /cache (a volume) and /tmp (a tmpfs).
# Neither holds a compiler. CUDA's libraries are those that torch's own wheels bring; the driver is the host's.

FROM python:3.11-slim-bookworm AS base
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PATH=/opt/voicepace/bin:$PATH

# ---- what is installed, built where compilers may be ----
FROM base AS builder
ENV PIP_NO_CACHE_DIR=1
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/*
COPY deploy/image /build/image

FROM builder AS cpu-packages
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY lock/cpu.txt lock/piper.txt /build/lock/
RUN /build/image/install_packages.sh /opt/voicepace /build/lock/cpu.txt /build/lock/piper.txt
COPY . /build/source
RUN /build/image/install_service.sh /opt/voicepace /build/source

FROM builder AS gpu-packages
ENV TRITON_CACHE_DIR=/opt/triton TRITON_LIBCUDA_PATH=/usr/lib/x86_64-linux-gnu
COPY lock/gpu.txt lock/piper.txt /build/lock/
RUN /build/image/install_packages.sh /opt/voicepace /build/lock/gpu.txt /build/lock/piper.txt \
 && /opt/voicepace/bin/python /build/image/build_triton_driver.py
COPY . /build/source
RUN /build/image/install_service.sh /opt/voicepace /build/source

# ---- what runs ----
FROM base AS runtime
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends libnuma1 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --no-create-home --home-dir /cache voicepace \
 && install -d -o 10001 -g 10001 /cache
COPY deploy/image/start.sh /usr/local/bin/start
ENV HOME=/cache HF_HOME=/cache/huggingface XDG_CACHE_HOME=/cache TRITON_CACHE_DIR=/cache/triton \
    VOICEPACE_CACHE_DIR=/cache/voicepace VOICEPACE_SERVER__HOST=0.0.0.0
USER 10001:10001
WORKDIR /cache
VOLUME /cache
EXPOSE 8080
# The service drains its calls on SIGTERM; give it as long as server.drain_s.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10m --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/readyz', timeout=2)"]
ENTRYPOINT ["start", "voicepace"]
CMD ["serve"]

FROM runtime AS gpu
COPY --from=gpu-packages /opt/triton /opt/triton
COPY --from=gpu-packages /opt/voicepace /opt/voicepace
# torch.compile would build host code with a compiler; eager steps of 30 ms hide the launches that compiling would save.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    TRITON_LIBCUDA_PATH=/usr/lib/x86_64-linux-gnu \
    VOICEPACE_PROFILE=l4-llama3-8b-fp8 VOICEPACE_ENGINE__ENFORCE_EAGER=true

# The default target.
FROM runtime AS cpu
COPY --from=cpu-packages /opt/voicepace /opt/voicepace
