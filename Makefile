# SPDX-License-Identifier: BSD-2-Clause
# The door: `make help` lists what is behind it. meson does the work.

# DEBUG=1: unoptimised, frame pointers, in a folder of its own.  SANITIZE=address,undefined or thread.  CC=clang: the other compiler.
BUILD ?= $(if $(filter 1,$(DEBUG)),build-debug,build)
MESON_OPTIONS ?=
ifeq ($(DEBUG),1)
MESON_OPTIONS += --buildtype=debug -Doptimization=0
endif
ifneq ($(SANITIZE),)
MESON_OPTIONS += -Db_sanitize=$(SANITIZE) -Db_lundef=false
endif
ifneq ($(PREFIX),)
MESON_OPTIONS += --prefix=$(abspath $(PREFIX))
endif

.DEFAULT_GOAL := build
.PHONY: help deps build run test soak test-help check format probe-page finding-page fault-page method-page metric-page inject-page operation-pages bench fuzz stats deb install clean

help: ## List these targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "Variables: BUILD=dir DEBUG=1 SANITIZE=address,undefined CC=clang PREFIX=dir MESON_OPTIONS=..."

deps: ## Install the packages of packages.txt that are missing (root or sudo)
	@scripts/install-packages

$(BUILD)/build.ninja: | deps
	@meson setup $(BUILD) $(MESON_OPTIONS)
	@echo '$(MESON_OPTIONS)' > $(BUILD)/make-options

# An existing build directory takes the options of this call; without options it stays unchanged.
.PHONY: options
options: $(BUILD)/build.ninja
	@[ -z '$(strip $(MESON_OPTIONS))' ] || [ "$$(cat $(BUILD)/make-options 2>&1)" = '$(MESON_OPTIONS)' ] || \
	    { meson configure $(BUILD) $(MESON_OPTIONS) && echo '$(MESON_OPTIONS)' > $(BUILD)/make-options; }

build: deps options ## Build everything; programs land in build/bin
	@ninja -C $(BUILD) --quiet

run: build ## Start a server, its helper (if you are root) and an engine with a 256 MiB volume, drive verified I/O, go on serving (RUN_SECONDS=n: end by itself; RUN_PORT=n)
	@scripts/run --build $(BUILD) $(if $(RUN_SECONDS),--seconds $(RUN_SECONDS)) $(if $(RUN_PORT),--port $(RUN_PORT))

# SUITE and NAME reach the recipe by the environment, as make has it for variables of its command line: a quote in them is no end.
test: deps options ## Run every test but those of make soak (SUITE=name NAME=regex GDB=1 ARGS=...; see make test-help)
	@scripts/run-tests --build $(BUILD) $(if $(SUITE),--suite "$$SUITE") $(if $(NAME),--name "$$NAME") $(if $(filter 1,$(GDB)),--gdb) $(ARGS)

soak: build ## Run what make test leaves out: long simulator runs, a minute of each fuzzer, a build by clang, 200 power cuts
	@scripts/run-tests --build $(BUILD) --suite soak $(ARGS)

test-help: ## Explain what make test takes
	@scripts/run-tests --help

check: ## Check layering, style and formatting (seconds; no build)
	@scripts/check-modules
	@scripts/check-style
	@scripts/check-format
	@scripts/check-docs
	@scripts/check-words

format: ## Format the sources
	@scripts/check-format --fix

probe-page: ## Write docs/probes.md and docs/states.md from the tables of probes
	@src/base/observe/probe/page.py > docs/probes.md
	@src/base/observe/probe/page.py --states > docs/states.md

finding-page: ## Write docs/findings.md from the table of findings of fathom doctor
	@src/inspect/doctor/generate.py --page src/inspect/doctor/findings.def > docs/findings.md

fault-page: ## Write docs/faults.md from the table of faults
	@src/control/fault/generate.py --page src/control/fault/faults.def > docs/faults.md

method-page: ## Write docs/json-rpc.md from the table of JSON-RPC methods
	@src/rpc/methods/generate.py --page src/rpc/methods/methods.def > docs/json-rpc.md

metric-page: ## Write docs/metrics.md from the table of metrics
	@src/rpc/figures/generate.py --page src/rpc/figures/figures.def > docs/metrics.md

inject-page: ## Write docs/fault-injection.md from the table of points
	@src/base/inject/generate.py --page src/base/inject/points.def > docs/fault-injection.md

operation-pages: ## Write the pages about management operations from their table
	@src/control/operation/generate.py --write

bench: build ## Measure, each figure beside its reference in the same run
	@scripts/bench --build $(BUILD) $(ARGS)

fuzz: deps ## Build the fuzzers with clang and run each for FUZZ_SECONDS (60)
	@scripts/fuzz --seconds $(or $(FUZZ_SECONDS),60) $(ARGS)

stats: ## Print the measures of docs and style
	@scripts/stats

deb: deps ## Build Debian packages of this tree in build/deb
	@scripts/make-deb $(BUILD)/deb

.PHONY: image
image: deb ## Make an OCI image of the engine in build/image, from Debian's packages and ours
	@scripts/make-image $(BUILD)/deb $(BUILD)/image

# What is installed has neither tests nor fault injection, so it is another build.
install: deps ## Install into PREFIX (/usr/local), below DESTDIR if that is given; builds without tests and fault injection
	@[ -f $(BUILD)/installed/build.ninja ] || meson setup $(BUILD)/installed $(MESON_OPTIONS) -Dtests=false
	@[ -z '$(strip $(MESON_OPTIONS))' ] || meson configure $(BUILD)/installed $(MESON_OPTIONS)
	@meson install -C $(BUILD)/installed

clean: ## Remove the build directory
	@rm -rf $(BUILD)
