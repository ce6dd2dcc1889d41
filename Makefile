# prefillonly: two commands matter, `make run` and `make test`; `make help` lists the rest.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
PREFIX ?= /usr/local
LDFLAGS := -X github.com/prefillonly/prefillonly/internal/version.Release=$(VERSION)
# go-nvml's bindings name functions that NVIDIA deprecates.
export CGO_CFLAGS ?= -O2 -g -Wno-deprecated-declarations
GO = $(shell tools/build/go.sh)
PURE = $(shell tools/build/pure.sh)
# make race leaves out what the detector does not see, as it is C and assembly, or a process that is built without it: kernels, and tests
# of whole servers; what it makes ten times slower and has few goroutines of its own: arithmetic of models, networks and videos; and what
# measures.
UNRACED := kernels cmd/prefillonly$$ test/field test/soak test/videosoak \
	engine/demo engine/device engine/dnn engine/encoder engine/host engine/inspect engine/model engine/weights/quantize \
	videoext/(detect|emulate|link|methods|motion|oneadapt|pipeline|resolve|scene|vision) \
	bench$$ bench/(cameras|cpu|dnn|figures|gpu|pipelines|video) internal/archtest tools
RACED = $(shell $(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}./{{slice .ImportPath 35}}{{end}}' ./... | grep -vE '^./($(subst $() ,|,$(strip $(UNRACED))))(/|$$)')

.PHONY: attack help onnx-tests setup native build install deb test-deb run cuda cuda-kernels build/cuda-test test-cuda bench-cuda check-cudnn test test-pure race lint soak soak-video strikes test-clients bench-cpu bench-dnn figures figures-video clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: ## install what is missing (apt packages, the tokenizer library)
	@tools/build/setup.sh
	@tools/build/native.sh

build: setup ## bin/prefillonly, and bin/camera, which encodes video
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/prefillonly ./cmd/camera

install: ## copy bin/prefillonly and bin/camera, manual pages, completions and the systemd unit below PREFIX (/usr/local)
	@test -x bin/prefillonly || { echo "install: run 'make build' first, as the user who develops" >&2; exit 1; }
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin bin/prefillonly bin/camera
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/man/man5
	bin/prefillonly man --dir $(DESTDIR)$(PREFIX)/share/man/man1
	mv -f $(DESTDIR)$(PREFIX)/share/man/man1/*.5 $(DESTDIR)$(PREFIX)/share/man/man5/
	bin/prefillonly completion bash | install -D -m 644 /dev/stdin $(DESTDIR)$(PREFIX)/share/bash-completion/completions/prefillonly
	bin/prefillonly completion zsh | install -D -m 644 /dev/stdin $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_prefillonly
	bin/prefillonly completion fish | install -D -m 644 /dev/stdin $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/prefillonly.fish
	sed 's|/usr/bin/|$(PREFIX)/bin/|' configs/prefillonly.service | install -D -m 644 /dev/stdin $(DESTDIR)$(PREFIX)/lib/systemd/system/prefillonly.service
	install -D -m 644 configs/prefillonly.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/prefillonly.conf
	install -D -m 644 configs/prefillonly.yaml $(DESTDIR)$(PREFIX)/share/doc/prefillonly/prefillonly.yaml

deb: setup ## Debian packages of prefillonly and its camera, into build/packages
	@tools/build/setup.sh dpkg-dev
	@rm -rf build/packages
	tools/build/deb.sh build/packages

test-deb: deb ## what a newcomer does with the package, in a Debian that systemd boots: install, start, ask, upgrade, remove (as root)
	@tools/build/setup.sh debootstrap systemd-container lintian
	tools/build/deb_test.sh build/packages

run: build ## serve the bundled demo model on port 8000
	bin/prefillonly serve

cuda-kernels: ## the GPU kernels, for sm_80, sm_89 and sm_90a (needs no GPU, fetches the compiler)
	@tools/build/cuda.sh >/dev/null

onnx-tests: ## ONNX's own tests of operations, for make test (fetches 18 MB, once)
	@tools/golden/onnx_node_tests.sh

cuda: setup cuda-kernels ## bin/prefillonly-cuda, which also serves on NVIDIA GPUs
	eval "$$(tools/build/cuda.sh)"; export CGO_CFLAGS CGO_LDFLAGS; \
	$(GO) build -tags cuda -ldflags '$(LDFLAGS)' -o bin/prefillonly-cuda ./cmd/prefillonly

# build/cuda-test beside the checkout is all that a GPU machine needs; tools/measure/cuda_report.sh says what else.
build/cuda-test: setup cuda-kernels
	@rm -rf $@ && mkdir -p $@
	eval "$$(tools/build/cuda.sh)"; export CGO_CFLAGS CGO_LDFLAGS; set -e; \
	$(GO) test -c -tags cuda -trimpath -ldflags '-s -w' -o $@/kernels.test ./kernels/cuda/driver; \
	$(GO) test -c -tags cuda -trimpath -ldflags '-s -w' -o $@/model.test ./engine/model; \
	$(GO) build -tags cuda -trimpath -ldflags '-s -w' -o $@/bench ./bench/gpu
	@echo "to carry: $$(du -sm $@ | cut -f1) MB in $@, $$(git ls-files -z | du -cm --files0-from=- | tail -n 1 | cut -f1) MB in the checkout"

test-cuda: build/cuda-test ## kernels and models on this machine's GPU, against the oracle and transformers
	tools/measure/cuda_report.sh conformance

bench-cuda: build/cuda-test ## Llama-3.1-8B's shape on this machine's GPU, beside PyTorch
	tools/measure/cuda_report.sh speed

# Each part of make test runs whatever became of those before it.
TESTS = '$(GO) vet ./...' \
	'$(GO) test -json -timeout 20m ./...' \
	'$(GO) test -json -timeout 20m -tags amx_emulated,vnni_emulated ./kernels/cpu' \
	'$(GO) test -json -timeout 20m -tags vnni512_emulated -run Int8 ./kernels/cpu' \
	'$(GO) test -json -timeout 20m -tags amx_int8_emulated -run "Int8|Bits" ./kernels/cpu' \
	'cd test/contract && $(GO) test -json ./...'
test: setup ## every test that needs no GPU; says which were not run, and why, and all that failed
	@tools/golden/onnx_node_tests.sh || test $$? = 69
	@tools/build/browser.sh || test $$? = 69
	$(GO) run ./tools/testreport $(TESTS)

test-pure: ## the tests of the packages without cgo
	CGO_ENABLED=0 $(GO) test $(PURE)

race: setup ## the race detector on all but kernels and what computes with them
	$(GO) test -race -short -timeout 20m $(RACED)

lint: setup ## gofmt, vet, staticcheck
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

check-cudnn: ## every plan of attention by cuDNN for three GPUs, and some of convolutions, without a GPU (fetches cuDNN, 1.4 GB)
	tools/build/cudnn_check.sh

test-clients: build ## unmodified clients from PyPI, npm and as Go modules, by groups; GROUPS="openai-python cohere" runs these alone
	tools/clients/run.sh $(GROUPS) || test $$? = 69

attack: build ## attacks on a real server, as a stranger would try them (30 minutes)
	python3 tools/attack

bench-cpu: build ## this engine beside transformers, OpenVINO, llama.cpp and vLLM on this machine's CPU, in bf16 and in int8
	tools/peers/bench_cpu.sh --products --lean --json bench/results/bench-cpu.json

bench-dnn: setup ## networks beside ONNX Runtime on this machine's CPU
	tools/peers/bench_dnn.sh

SOAK ?= 1h
soak: build ## mixed traffic with faults for SOAK=1h: what became of every request, and the memory of each process
	$(GO) run ./test/soak -duration $(SOAK)

soak-video: build ## five ways to stream video for SOAK=1h, then streams of a server beside requests for as long, with faults: results and memory
	$(GO) run ./test/videosoak -duration $(SOAK)
	$(GO) run ./test/soak -streams -clients 4 -roles video,executor,scheduler,frontend -duration $(SOAK)

strikes: build ## 50 kill -9 and 50 SIGSEGV or SIGSTOP under 16 clients
	$(GO) run ./test/soak -duration 0 -every 0 -faults 100 -signals KILL,SEGV,KILL,STOP

figures: build ## the paper's tables and figures from the simulator, into bench/results
	tools/measure/figures.sh

figures-video: build ## the comparison of ways to stream video, into bench/results/video
	tools/measure/figures_video.sh

clean: ## remove what was built
	rm -rf bin build engine/tokenizer/native/lib engine/tokenizer/native/target
