# What people type. `make run` and `make test` do everything, from nothing, on Debian 12.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

JOBS ?= $(shell nproc)
EXO_HOME ?= $(CURDIR)/.exo
ARGS ?=
# Of `make fuzz`: how long for each parser, and which (a regular expression).
SECONDS ?= 60
TARGET ?= .*
SETUP ?= yes
# cuda, metal, rocm or vulkan: the kind of GPU to use besides the CPU (docs/howto/gpu.md).
GPU ?=
export GPU

# The engine is left out under AddressSanitizer here (make test-full has it): its tests spend their
# time in ggml, which is not instrumented.
ASAN_LAYERS := base;model;core;net;collective;ipc;storage;system;api;node
TSAN_LAYERS := base;model;net;collective
PURE_LABELS := unit|golden|sim|fuzz|integration
# Without the simulations, which take minutes when instrumented: test-full has them.
ASAN_LABELS := unit|golden|fuzz|integration

build_preset = cmake --preset $(1) "-DEXO_GPU=$(GPU)" $(2) && \
	cmake --build --preset $(1) --parallel $(JOBS)

.PHONY: help
help: ## Show this list
	@grep --no-filename -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: setup
setup: ## Install the Debian packages that are missing (root or sudo)
ifeq ($(SETUP),yes)
	@tools/setup
endif

.PHONY: deps
deps: setup ## Fetch what is pinned (llama.cpp, demo model, Python tools) and build llama.cpp
	@tools/deps

.PHONY: test-deps
test-deps: deps
	@tools/deps test_model

.PHONY: build
build: deps ## Build the program: build/exo; with a GPU: make build GPU=vulkan
	@cmake --preset release "-DEXO_GPU=$(GPU)"
	@cmake --build --preset release --parallel $(JOBS) --target exo

.PHONY: run
run: build ## Start a node with the demo model; more flags: make run ARGS="--api-port 8000"
	@mkdir -p "$(EXO_HOME)/models"
	@source third_party/pins.sh && \
		{ cp --link --force ".deps/models/$$model_file" "$(EXO_HOME)/models" 2>/dev/null || \
			cp --force ".deps/models/$$model_file" "$(EXO_HOME)/models"; }
	@EXO_HOME="$(EXO_HOME)" exec build/exo $(ARGS)

.PHONY: test
test: test-deps ## Build and run every test
	@$(call build_preset,release)
	@$(call build_preset,asan,"-DEXO_LAYERS=$(ASAN_LAYERS)")
	@$(call build_preset,fuzz,-DEXO_FUZZ_SECONDS=10)
	@tools/run_tests build "build-asan:$(ASAN_LABELS)" build-fuzz:fuzz_network

.PHONY: test-full
test-full: export EXO_NETLAB_FULL = 1
test-full: test-deps ## As test, and the other sanitizers, g++, every layer, a larger network lab
	@$(call build_preset,release)
	@$(call build_preset,asan)
	@$(call build_preset,ubsan)
	@$(call build_preset,tsan,"-DEXO_LAYERS=$(TSAN_LAYERS)")
	@$(call build_preset,gcc)
	@$(call build_preset,fuzz,-DEXO_FUZZ_SECONDS=10)
	@tools/run_tests build "build-asan:$(PURE_LABELS)|numeric" \
		"build-ubsan:$(PURE_LABELS)|numeric" "build-tsan:$(PURE_LABELS)" \
		"build-gcc:$(PURE_LABELS)" build-fuzz:fuzz_network
	@if [[ -e .deps/llama/build-vulkan.stamp ]]; then \
		$(MAKE) --no-print-directory test-vulkan; \
	else \
		echo "Vulkan: skipped, llama.cpp is not built with it (make test-vulkan does)"; \
	fi

.PHONY: fuzz
fuzz: deps ## Look for inputs that break parsers: make fuzz SECONDS=60 [TARGET=yamux]
	@cmake --preset fuzz "-DEXO_FUZZ_SECONDS=$(SECONDS)" >/dev/null
	@cmake --build --preset fuzz --parallel $(JOBS) --target fuzz_targets_all
	@ctest --test-dir build-fuzz --label-regex fuzz --tests-regex "fuzz_($(TARGET))$$" \
		--parallel $(JOBS) --output-on-failure
	@echo "To keep inputs that reach new code: tools/fuzz_corpus"

.PHONY: test-vulkan
test-vulkan: GPU := vulkan
test-vulkan: deps ## Compare ranks on Vulkan with the CPU; Mesa's software driver will do
	@cmake --preset release -B build-vulkan -DEXO_GPU=vulkan
	@cmake --build build-vulkan --parallel $(JOBS) --target engine_gpu_test
	@tools/run_tests "build-vulkan:gpu"

.PHONY: bench
bench: build ## Tokens per second of 1 rank, 2 ranks and llama.cpp, side by side
	@tools/deps bench
	@.deps/venv/bin/python bench/compare.py $(ARGS)

.PHONY: bench-collective
bench-collective: deps ## What ranks cost each other by size, beside a bare TCP socket
	@cmake --preset release -DEXO_BENCH=ON >/dev/null
	@cmake --build --preset release --parallel $(JOBS) --target collective_bench
	@build/bench/collective_bench $(ARGS)

.PHONY: bench-gossip
bench-gossip: deps ## How fast events get around 8 nodes, beside what checking signatures costs
	@cmake --preset release -DEXO_BENCH=ON >/dev/null
	@cmake --build --preset release --parallel $(JOBS) --target gossip_bench
	@build/bench/gossip_bench $(ARGS)

.PHONY: bench-network
bench-network: deps ## What one stream of two hosts moves, beside bare TCP and the ciphers alone
	@cmake --preset release -DEXO_BENCH=ON >/dev/null
	@cmake --build --preset release --parallel $(JOBS) --target network_bench
	@build/bench/network_bench $(ARGS)

.PHONY: format
format: setup ## Format every C++ file
	@git ls-files --cached --others --exclude-standard '*.cpp' '*.hpp' | xargs clang-format-19 -i

.PHONY: tidy
tidy: deps ## Check style: layers, purity, sizes, format; then every header alone
	@tools/tidy.py
	@cmake --preset dev >/dev/null
	@cmake --build --preset dev --parallel $(JOBS) --target all_verify_interface_header_sets

.PHONY: lint
lint: deps ## Run clang-tidy over the sources (slow)
	@cmake --preset dev >/dev/null
	@run-clang-tidy-19 -quiet -p build-dev -j $(JOBS) "$(CURDIR)/(src|sim|fuzz|tests)/"

.PHONY: clean
clean: ## Remove what was built; .deps stays (rm -r .deps brings everything anew)
	rm -rf build build-*
