# Images of prefillonly. Build the CPU one with
#     docker build -t prefillonly .
# and the one for NVIDIA GPUs (driver 580 or newer) with
#     docker build -t prefillonly:cuda --target cuda .

FROM golang:1.26-bookworm AS base
RUN apt-get update && apt-get install -y --no-install-recommends \
        cargo-web rustc-web libdnnl-dev libzmq3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .

FROM base AS build-cpu
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache --mount=type=cache,target=/root/.cargo/registry \
    make build

FROM base AS build-cuda
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache --mount=type=cache,target=/root/.cargo/registry \
    make cuda

FROM debian:bookworm-slim AS runtime
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates libstdc++6 libzmq5 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 65532 --create-home prefillonly
USER 65532
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK CMD ["/usr/local/bin/prefillonly", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/prefillonly"]
CMD ["serve", "--host", "0.0.0.0"]

FROM nvidia/cuda:13.0.1-base-ubuntu24.04 AS cuda
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates libcublas-13-0 libstdc++6 libzmq5 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 65532 --create-home prefillonly
COPY --from=build-cuda /src/bin/prefillonly-cuda /usr/local/bin/prefillonly
USER 65532
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK CMD ["/usr/local/bin/prefillonly", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/prefillonly"]
CMD ["serve", "--host", "0.0.0.0"]

FROM runtime
COPY --from=build-cpu /src/bin/prefillonly /usr/local/bin/prefillonly
