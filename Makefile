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

# The Python side. Its environments, caches and reports lie below the workspace's folder, too.
PY := crates/semel-py
PY_CODE := $(PY)/python $(PY)/tests examples/python
PY_TYPED := $(PY)/python examples/python
PY_HOME := target/python
PY_TOOLS := $(PY_HOME)/tools
PY_TEST := $(PY_HOME)/test
PY_DEMO := $(PY_HOME)/demo
PY_REPORT := $(PY_HOME)/junit.xml
RUFF := RUFF_CACHE_DIR=$(PY_HOME)/ruff $(PY_TOOLS)/bin/ruff
MATURIN := $(PY_TOOLS)/bin/maturin build --locked --manifest-path $(PY)/Cargo.toml
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## install test runner, Postgres, PgBouncer and Python, if missing
	@scripts/setup

.PHONY: fmt
fmt: tools ## format all code
	@cargo fmt --all
	@$(RUFF) check --quiet --select I --fix $(PY_CODE)
	@$(RUFF) format $(PY_CODE)

.PHONY: lint
lint: tools ## format check, clippy, ruff, house rules, types of Python
	@echo "== lint"
	@cargo fmt --all --check
	@cargo clippy --locked $(ALL) --all-targets -- -D warnings
	@$(RUFF) format --check $(PY_CODE)
	@$(RUFF) check $(PY_CODE)
	@$(XTASK) tidy
	@$(MAKE) --no-print-directory types

.PHONY: quick
quick: setup ## the inner loop: format check and all but the slow tests
	@cargo fmt --all --check
	@$(NEXTEST) $(ALL) --profile quick

# With a failing test all else is run and the verdict printed, so the count is always the last word.
# What leaves no report, such as a build that fails, ends it at once.
.PHONY: test
test: setup lint ## everything: lint, all tests, documentation, requirements
	@rm -f $(REPORT) $(PY_REPORT)
	@failed=; \
	echo "== tests"; \
	$(NEXTEST) $(ALL) --profile ci || failed+=" tests"; \
	test -f $(REPORT); \
	$(MAKE) --no-print-directory pytest || failed+=" pytest"; \
	test -f $(PY_REPORT); \
	echo "== documentation"; \
	cargo test --locked $(ALL) --doc; \
	RUSTDOCFLAGS="-D warnings" cargo doc --locked $(ALL) --no-deps; \
	echo "== requirements"; \
	test -z "$$failed" || echo "error: failed above:$$failed" >&2; \
	$(XTASK) requirements --report $(REPORT) --report $(PY_REPORT); \
	test -z "$$failed"

.PHONY: requirements
requirements: $(REPORT) $(PY_REPORT) ## row, tests, result; fails on gaps
	@$(XTASK) requirements --report $(REPORT) --report $(PY_REPORT)

# Runs again after any change; folders are listed too, as a deleted file shows only in its folder.
# Failing tests still leave a report to judge; a build that fails leaves none.
SOURCES := $(shell find crates examples xtask Cargo.lock -name __pycache__ -prune -o -print)
$(REPORT): $(SOURCES)
	@$(MAKE) --no-print-directory setup
	@rm -f $@
	@$(NEXTEST) $(ALL) --profile ci || test -f $@

$(PY_REPORT): $(SOURCES)
	@rm -f $@
	@$(MAKE) --no-print-directory pytest || test -f $@

.PHONY: tools
tools:
	@scripts/venv $(PY_TOOLS) $(PY)/requirements/build.txt

# The tests' wheel is the users' without optimisation across crates, which takes minutes.
UNLINKED := CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16

# What users get.
.PHONY: wheel
wheel: tools ## build the Python package: dist/semel-*.whl
	@rm -f dist/semel-*.whl
	@$(MATURIN) --release --out dist
	@du -h dist/semel-*.whl

# The type checkers read the sources; the wheel need not be built for them.
.PHONY: python
python: types pytest ## check types; test the wheel in an environment of its own

.PHONY: types
types:
	@scripts/venv $(PY_TEST) $(PY)/requirements/test.txt
	@$(PY_TEST)/bin/mypy --config-file $(PY)/pyproject.toml --cache-dir $(PY_HOME)/mypy $(PY_TYPED)
	@$(PY_TEST)/bin/pyright --project $(PY) --pythonpath $(PY_TEST)/bin/python

# PYTEST_ARGS="-k signal -x" chooses among them.
.PHONY: pytest
pytest: setup tools
	@echo "== python tests"
	@rm -f dist/semel-*.whl
	@$(UNLINKED) $(MATURIN) --release --out dist
	@rm -f $(PY_REPORT)
	@scripts/venv $(PY_TEST) $(PY)/requirements/test.txt
	@$(PY_TEST)/bin/python $(PIP_INSTALL) --force-reinstall --no-deps dist/semel-*.whl
	@$(PY_TEST)/bin/python -m pip check
	@$(XTASK) postgres -- $(PY_TEST)/bin/python -m pytest --config-file $(PY)/pyproject.toml \
		--numprocesses 3 --dist worksteal --junitxml $(PY_REPORT) $(PYTEST_ARGS) $(PY)/tests

.PHONY: demo-python
demo-python: wheel ## kill the triage in Python and count at its destinations
	@scripts/venv $(PY_DEMO) $(PY)/requirements/examples.txt
	@$(PY_DEMO)/bin/python $(PIP_INSTALL) --force-reinstall --no-deps dist/semel-*.whl
	@$(PY_DEMO)/bin/python examples/python/demo.py

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
