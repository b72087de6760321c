# Targets for contributors; every target can be run on a fresh Debian 12 with a Rust toolchain.

CARGO ?= cargo
# Further arguments of the laboratory, e.g. make bench ARGS="--quick"
ARGS ?=
# One fuzz target instead of all, and for how long, e.g. make fuzz TARGET=path SECONDS=600
TARGET ?=
SECONDS ?= 60
# Seeds of the simulation that a test run takes; any others with make simulate.
TEST_SEEDS ?= 0..3000

# weir has no library: it is named so that what all depend on has the features, and so the files, of the other tests.
SIMULATION = -p net -p gateway -p weir --lib --features net/simulation,gateway/simulation

.DEFAULT_GOAL := help
.PHONY: help run build package test test-rest test-walks test-peers simulate lint fmt doc docs bench figures hardening truthfulness soak fuzz install

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Build and start a gateway, an echo origin behind it and an example route
	@lab/install.sh run
	$(CARGO) build --profile quick
	@examples/try.sh target/quick/weir

build: ## Build the release binary
	$(CARGO) build --release

package: ## Build all packages into target/package, with a static binary (ARGS="--only deb,rpm")
	@lab/install.sh package
	@packaging/build.py $(ARGS)

test: ## Everything that must pass: format, lints, all tests, documentation
	@lab/install.sh run
	@# Both at once: installing mostly waits for the network, the lints use the processor.
	$(MAKE) --no-print-directory --jobs=3 --output-sync=target install lint
	$(CARGO) test --workspace --no-run
	@# Both at once: the walks keep Chromium busy, most other tests wait for a server or a limit. Not in order of
	@# targets: that would show the first line after ten minutes.
	$(MAKE) --no-print-directory --jobs=2 test-rest test-walks
	WEIR_SIMULATE=$(TEST_SEEDS) $(CARGO) test $(SIMULATION) -- env::memory simulation
	$(MAKE) --no-print-directory doc
	@echo "Left out: $$(grep -rhoE '"make test-peers: [^"]+' crates/weir/tests | sort | uniq -c | sed -E 's/ *([0-9]+) "make test-peers: (.*)/\2 (\1)/' | paste -sd, | sed 's/,/, /g'); make test-peers runs the tests with these servers."

test-rest:
	$(CARGO) test --workspace -- --skip dashboard::

# One walk at a time: the pages of one load two cores.
test-walks:
	$(CARGO) test --workspace --test it -- --test-threads=1 dashboard::

test-peers: ## Tests with servers that take minutes to install: Keycloak, Kafka, OpenSearch, ...
	@lab/install.sh test peers
	$(CARGO) test --workspace --test it -- --ignored

simulate: ## Run the seeded simulation (SEED=7, SEEDS=0..100000)
	WEIR_SIMULATE=$(or $(SEED),$(SEEDS),$(TEST_SEEDS)) $(CARGO) test $(SIMULATION) -- --nocapture simulation::seeds::seeds_give

lint: ## Format check, clippy with warnings denied, and the ratchet of the prose
	$(CARGO) fmt --all -- --check
	$(CARGO) test --quiet --package tidy
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) check --quiet --package weir --no-default-features
	@# weir is named as for the simulation: the dependencies have the features that they were checked with above.
	$(CARGO) clippy -p net -p exchange -p gateway -p weir --lib --profile test --features gateway/simulation -- -D warnings

fmt: ## Format the sources
	$(CARGO) fmt --all

doc: ## Build the API documentation, warnings denied
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items

docs: ## Build the documentation site, target/site, and check its links
	@lab/install.sh docs
	@docs/site/build.py

bench: build ## Measure weir beside nginx and HAProxy (all gateways: target/release/weir lab run)
	@target/release/weir lab run --quick $(ARGS)

figures: build ## Measure start-up, cache misses and 100,000 routes (ARGS="--help")
	@lab/install.sh bench
	@lab/figures.py $(ARGS)

hardening: build ## Measure what weir withstands: slow clients, changes, crashes, overload (ARGS="--help")
	@lab/install.sh bench
	@lab/hardening.py $(ARGS)

truthfulness: build ## Measure whether the laboratory sees a planted slowdown, and agrees with itself
	@lab/install.sh bench
	@lab/truthfulness.py $(ARGS)

soak: build ## Run mixed traffic for half an hour, every answer checked (ARGS="--minutes 5")
	@lab/install.sh bench
	@lab/soak.py $(ARGS)

fuzz: ## Fuzz all targets in turn (TARGET=path SECONDS=600)
	@fuzz/run.sh "$(TARGET)" "$(SECONDS)"

install: ## Install the Debian packages that tests need
	@lab/install.sh test
