# The commands of this project; the build server runs `make test` and nothing else.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# Everywhere the same set, so that lint, tests and documentation share one build.
ALL := --workspace --all-features
XTASK := cargo --locked xtask
# All ordinary tests share one throw-away Postgres, or the one that SEMEL_TEST_POSTGRES names.
NEXTEST := $(XTASK) postgres -- cargo nextest run --locked
# nextest writes below the workspace's folder, wherever cargo builds.
REPORT := target/nextest/ci/junit.xml
BUILD := $(or $(CARGO_TARGET_DIR),target)
SEMEL := $(BUILD)/release/semel
DENY := .tools/bin/cargo-deny

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## install test runner, Postgres and PgBouncer, if missing
	@scripts/setup

.PHONY: fmt
fmt: ## format all code
	@cargo fmt --all

.PHONY: lint
lint: ## format check, clippy, house rules
	@echo "== lint"
	@cargo fmt --all --check
	@cargo clippy --locked $(ALL) --all-targets -- -D warnings
	@$(XTASK) tidy

.PHONY: quick
quick: setup ## the inner loop: format check and all but the slow tests
	@cargo fmt --all --check
	@$(NEXTEST) $(ALL) --profile quick

# With a failing test the verdict is printed all the same, so the count is always the last word.
.PHONY: test
test: setup lint ## everything: lint, all tests, documentation, requirements
	@echo "== tests"
	@rm -f $(REPORT)
	@$(NEXTEST) $(ALL) --profile ci \
		|| { test ! -f $(REPORT) || $(XTASK) requirements --report $(REPORT); exit 1; }
	@echo "== documentation"
	@cargo test --locked $(ALL) --doc
	@RUSTDOCFLAGS="-D warnings" cargo doc --locked $(ALL) --no-deps
	@echo "== requirements"
	@$(XTASK) requirements --report $(REPORT)

.PHONY: requirements
requirements: $(REPORT) ## row, tests, result; fails on gaps
	@$(XTASK) requirements --report $(REPORT)

# Runs again after any change; folders are listed too, as a deleted file shows only in its folder.
# Failing tests still leave a report to judge; a build that fails leaves none.
$(REPORT): $(shell find crates examples xtask Cargo.lock)
	@$(MAKE) --no-print-directory setup
	@rm -f $@
	@$(NEXTEST) $(ALL) --profile ci || test -f $@

.PHONY: demo
demo: ## build the command and watch a crash do no harm
	@cargo build --locked --release -p semel-cli
	@$(SEMEL) demo

.PHONY: bench
bench: ## build the command and measure ledger and runs
	@cargo build --locked --release -p semel-cli
	@$(SEMEL) bench ledger
	@$(SEMEL) bench runs

# Advisories are left out: they need a fresh copy of a database from the network.
.PHONY: deny
deny: ## licences, bans and sources of all dependencies
	@test -x $(DENY) || cargo install cargo-deny --locked --root .tools
	@$(DENY) --locked check licenses bans sources
