# Every command a developer or an operator of one machine needs. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3.11
HOME_DIR ?= .sluice
VENV := .venv/bin
export LC_ALL := C.UTF-8
export PYTHONUNBUFFERED := 1

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Python packages and jars, checked by hash; offline and quick the second time
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is missing: apt-get install python3.11 python3.11-venv"; exit 1; }
	@$(PYTHON) config/toolchain/bootstrap.py --dev

.PHONY: setup-run
setup-run: ## the same without what tests and lint need; for an installation
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is missing: apt-get install python3.11 python3.11-venv"; exit 1; }
	@$(PYTHON) config/toolchain/bootstrap.py

.PHONY: demo
demo: setup-run ## start everything and run the main job by itself (DETACH=1 returns when done)
	@exec $(VENV)/python manage.py quickstart --home $(HOME_DIR) $(if $(DETACH),--detach)

.PHONY: stop
stop: ## end what `make demo` started
	@if [ -x $(VENV)/python ]; then $(VENV)/python manage.py quickstart --stop --home $(HOME_DIR); fi

.PHONY: lint
lint: setup ## format, lint, templates, types, import contracts, migrations
	@$(VENV)/python -m config.toolchain.checks --static

.PHONY: test
test: setup ## lint, types, import contracts and tests, as CI runs them
	@$(VENV)/python -m config.toolchain.checks

.PHONY: unit
unit: setup ## lint, types and the unit tests of the packages that changed; while you write
	@$(VENV)/python -m config.toolchain.checks --unit

.PHONY: t
t: setup ## one test with the servers it needs: make t T=tests/unit/core/test_states.py::name
	@$(VENV)/python -m pytest -q --long=all $(T)

.PHONY: test-all
test-all: setup ## the same with all long tests and a million rows; before a release
	@$(VENV)/python -m config.toolchain.checks --all

.PHONY: bench
bench: setup ## measure ratios inside one run; JSON into .sluice/bench/
	@$(VENV)/uv pip install --quiet --python $(VENV)/python --require-hashes -r config/toolchain/requirements-bench.lock
	@$(VENV)/python -m tests.bench

.PHONY: siege
siege: setup ## attack the gateway of a running demo for SLUICE_SIEGE_MINUTES (60) beside eight good clients
	@$(VENV)/python -m tests.siege $(HOME_DIR)

.PHONY: compat
compat: setup ## PyHive, SQLAlchemy, pandas, impyla, dbt and Hive JDBC 2 and 4 against a running demo, each with what it does not do
	@$(VENV)/python -m tests.compat $(HOME_DIR)

.PHONY: fuzz-sql
fuzz-sql: setup ## SLUICE_FUZZ_SQL (100000) composed attacks on rights from SLUICE_FUZZ_SEED, SLUICE_RIGHTS_PAIRS (10000) queries beside copies made by hand, SLUICE_PREDICATES (1000) over collations
	@SLUICE_FUZZ_SQL=$${SLUICE_FUZZ_SQL:-100000} SLUICE_RIGHTS_PAIRS=$${SLUICE_RIGHTS_PAIRS:-10000} SLUICE_PREDICATES=$${SLUICE_PREDICATES:-1000} \
	  $(VENV)/python -m pytest -q -s -o timeout=0 --long all tests/spark/test_fuzz_sql.py tests/spark/test_rows_and_columns.py tests/spark/test_predicates_mariadb.py -k "many"

.PHONY: fault
fault: setup ## long fault campaigns, seeded, with a report
	@$(VENV)/python -m tests.fault.campaign

.PHONY: soak
soak: setup ## one product under everything at once for SLUICE_SOAK_ROUNDS (80) of five minutes, nothing killed: what grows
	@$(VENV)/python -m tests.fault.soak

.PHONY: messages
messages: setup ## bring the translations up to date with what pages show
	@$(VENV)/python -m config.toolchain.translations

.PHONY: editor
editor: ## bundle the SQL page's editor anew from frontend/editor (needs Node and npm)
	@cd frontend/editor && npm ci --silent && npm run --silent build && rm -r node_modules

.PHONY: lock
lock: ## resolve the Python requirements anew and write the hashed locks
	@cd config/toolchain && for name in requirements requirements-dev requirements-build requirements-bench; do \
	  ../../$(VENV)/uv pip compile --quiet --universal --python-version 3.11 \
	    --generate-hashes --no-header --no-annotate --allow-unsafe -o $$name.lock $$name.in; done
