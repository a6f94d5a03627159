# Two commands for a newcomer: `make demo` and `make test`. Both set up .venv once and reuse it.
# The demo needs the package alone; tests need Flower, Ray and the developers' tools, too.
# Another Python beside it, in a folder of its own: make PYTHON=python3.13 VENV=.venv-3.13 test
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY_TO_RUN := $(VENV)/.ready-to-run
READY := $(VENV)/.ready

.PHONY: help setup setup-demo demo field-demo field-chaos field-netchaos test lint types unit \
	browser reproduce-check docs docs-pictures fuzz mutants release clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 17

setup: $(READY) ## make .venv with everything, to develop and test
setup-demo: $(READY_TO_RUN) ## make .venv with the package alone, to run experiments

# Stamps are written last: an interrupted set-up is done again, a finished one is skipped. All that the first
# installs is in the second, too, which therefore stands for both.
$(READY_TO_RUN): WHAT := .
$(READY_TO_RUN): WHY := to run experiments
$(READY): WHAT := '.[dev,docs,sites,dicom,simulation,pretrained,onnx,export]'
$(READY): WHY := to run, develop and test
$(READY_TO_RUN) $(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "fedactive needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "set-up, once: installing what fedactive needs $(WHY) into $(VENV) (minutes, mostly downloads)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python tools/install.py --constraint constraints.txt --editable $(WHAT)
	@touch $(READY_TO_RUN) $@

demo: setup-demo ## LoGo, Entropy and Random side by side on an embedded dataset
	$(BIN)/fedactive demo

field-demo: setup ## a coordinator and three sites on this machine: TLS, keys, labelling pages, LoGo
	$(BIN)/python -m fedactive.cli.field_demo

field-chaos: setup ## the same with everything killed in turn: the run ends, and no label is lost (minutes)
	FEDACTIVE_CHAOS=1 $(BIN)/pytest -n 0 tests/sites/test_chaos.py

field-netchaos: setup ## the same with lines that are cut, slow and lossy, and a coordinator that moves (minutes, root)
	FEDACTIVE_CHAOS=1 $(BIN)/pytest -n 0 tests/sites/test_netchaos.py

# Tests often wait for processes that they have started: meanwhile types and tables are checked.
test: setup lint browser ## lint, types, the whole test suite, the reproduction's tables
	@$(MAKE) --no-print-directory --jobs 2 unit types reproduce-check

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

# Four at a time for two cores: many tests wait for processes that they have started. Those are hundreds, so
# Python keeps what it has compiled, whatever the environment says.
unit: export PYTHONDONTWRITEBYTECODE =
unit: setup browser
	$(BIN)/pytest -n 4 --dist worksteal

reproduce-check: setup ## README and the documents of results say what results/ says
	@for file in docs/REPRODUCTION.md docs/BENCHMARK.md results/runs.parquet results/yardstick.parquet \
		docs/FEW-LABELS.md results/few-labels.parquet; do \
		[ -e $$file ] || { echo "$$file is missing: it is needed to check the reproduction" >&2; exit 1; }; \
	done
	$(BIN)/python tools/reproduce_check.py

docs: setup ## the documentation as a site in build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "build/site/index.html: open it, or with search: $(BIN)/python -m http.server -d build/site 8000"

docs-pictures: setup ## give the commands of the tutorials, and keep the pictures that they draw (minutes)
	$(BIN)/python docs/hooks/pictures.py

# Not part of `make test`: every fault of every target takes hours.
#   make mutants MUTANTS="--only query/pool.py data/ --sample 30 --resume"
mutants: setup ## plant faults one at a time, and list those that no test notices
	$(BIN)/python tests/mutants.py $(MUTANTS)

release: setup ## build sdist and wheel into dist/, and try the wheel in a fresh environment
	$(BIN)/python tools/release.py

# `make test` has 2,000 cases of this, always the same ones.
#   make fuzz FUZZ="--cases 5000 --seed 7 --only npz models"
fuzz: setup ## give thousands of damaged files and mistyped commands; prints what breaks, and keeps its input
	PYTHONPATH=tests $(BIN)/python -m fuzz $(FUZZ)

# Pages are tested in a real browser. This target never fails. Without a browser those tests are skipped with a
# message; where the variable CI is set, they fail.
browser: ## install Chromium and axe-core for the tests, where they are missing and that needs no password
	@as_root=$$([ "$$(id -u)" = 0 ] || echo sudo -n); \
	there() { command -v chromium && command -v chromedriver; } > /dev/null; \
	allowed() { command -v apt-get && $$as_root true; } > /dev/null 2>&1 < /dev/null; \
	install() { \
		timeout -k 10 120 $$as_root apt-get -qq update; \
		timeout -k 10 600 $$as_root env DEBIAN_FRONTEND=noninteractive \
			apt-get -qq install --no-install-recommends chromium chromium-driver; \
	} > /dev/null 2>&1 < /dev/null; \
	if ! there && allowed; then echo "installing Chromium for tests in a browser"; install; fi; \
	there || echo "Chromium is missing and cannot be installed: tests in a browser are skipped"
	@axe=tests/support/axe; \
	there() { [ $$axe/node_modules/axe-core/axe.min.js -nt $$axe/package-lock.json ]; }; \
	if ! there && command -v npm > /dev/null; then \
		echo "installing axe-core, which checks pages for accessibility"; \
		timeout -k 10 120 npm ci --prefix $$axe --ignore-scripts --no-audit --no-fund > /dev/null 2>&1 < /dev/null && \
			touch $$axe/node_modules/axe-core/axe.min.js; \
	fi; \
	there || echo "axe-core is missing and cannot be installed: tests of accessibility are skipped"

clean: ## remove .venv, dist and caches (run folders are kept)
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .mutants
