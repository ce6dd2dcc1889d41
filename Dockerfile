# Images of prefillonly. For CPUs:
#     docker build -t prefillonly .
#     docker run -p 8000:8000 prefillonly
# For NVIDIA GPUs (driver 580 or newer, NVIDIA's container toolkit):
#     docker build -t prefillonly:cuda --target cuda .
#     docker run --gpus all -p 8000:8000 -v "$PWD/Llama-3.1-8B:/model:ro" prefillonly:cuda serve /model --device cuda
# The build needs no GPU. --build-arg VERSION=... is what `prefillonly version` says.

FROM golang:1.26.8-bookworm AS base
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends \
        cargo-web rustc-web libavformat-dev libdnnl-dev libswscale-dev libx264-dev libzmq3-dev python3-venv ffmpeg \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG VERSION=unknown

FROM base AS build-cpu
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache --mount=type=cache,target=/root/.cargo/registry \
    make build VERSION="$VERSION"

# tools/build/cuda.sh fetches the CUDA compiler itself, so the base is the same as for CPUs.
FROM base AS build-cuda
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache --mount=type=cache,target=/root/.cargo/registry \
    make cuda VERSION="$VERSION"

# cuBLASLt, cuDNN and NVRTC, which the server opens at run time.
FROM nvidia/cuda:13.0.1-cudnn-runtime-ubuntu24.04 AS cuda
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates libstdc++6 libzmq5 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 65532 --create-home prefillonly
COPY --from=build-cuda /src/bin/prefillonly-cuda /usr/local/bin/prefillonly
USER 65532
ENV PREFILLONLY_HOST=0.0.0.0
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --start-period=15m --interval=10s --timeout=6s CMD ["/usr/local/bin/prefillonly", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/prefillonly"]
CMD ["serve"]

# The camera's side of video alone, which is GPL as a whole (NOTICE):
#     docker build -t prefillonly:camera --target camera .
#     docker run prefillonly:camera run --server https://video.example.com --stream gate --source rtsp://10.0.0.7/live
FROM debian:bookworm-slim AS camera
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates libavformat59 libswscale6 libx264-164 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 65532 --create-home prefillonly
COPY --from=build-cpu /src/bin/camera /usr/local/bin/camera
COPY --from=build-cpu /src/LICENSE /src/NOTICE /usr/share/doc/camera/
USER 65532
ENTRYPOINT ["/usr/local/bin/camera"]

# Video is read by FFmpeg's libraries, which the server opens when it first needs them.
FROM debian:bookworm-slim AS cpu
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates libavformat59 libstdc++6 libswscale6 libzmq5 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 65532 --create-home prefillonly
COPY --from=build-cpu /src/bin/prefillonly /usr/local/bin/prefillonly
USER 65532
ENV PREFILLONLY_HOST=0.0.0.0
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --start-period=15m --interval=10s --timeout=6s CMD ["/usr/local/bin/prefillonly", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/prefillonly"]
CMD ["serve"]
