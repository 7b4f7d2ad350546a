# Everything happens in .venv, made here with exact versions from constraints.txt.

PYTHON  ?= python3
WORKERS ?= 3
THREADS ?= 1
TESTS   ?= -m "not slow"
VENV    := .venv
BIN     := $(VENV)/bin
PIP     := $(BIN)/python -m pip --disable-pip-version-check -qq

DEMO := demo
TEST := demo,models,app,oracles,theory,ray,tensorboard,browser,dev
ALL  := $(TEST),docs
# Pins that only the documentation needs, a third of all files: make test does without them.
SITE := mkdocs.*|babel|backrefs|colorama|ghp-import|mergedeep|paginate|pymdown-extensions|pyyaml_env_tag|watchdog
HELD := torch|torchvision|typer|pymdown-extensions

# Bytecode is kept even where the environment forbids it: the tests start many processes, and each would compile anew.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=$(THREADS) MKL_NUM_THREADS=$(THREADS) $(BIN)/python -m pytest

# The schemas are part of the package: nothing is fetched.
SCHEMA := $(BIN)/check-jsonschema -q --builtin-schema vendor.

.PHONY: help demo test test-all suite lint types style texts doctests collect format docs pictures dist bench constraints clean
.DELETE_ON_ERROR:

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/demo.stamp  ## explain real photographs and judge the methods; pictures and table in demo/
	PYTHONDONTWRITEBYTECODE= $(BIN)/proofmap demo --out demo
	@echo "Pictures, curves and the table are in $(CURDIR)/demo"

test: $(VENV)/test.stamp  ## what must pass before a commit: lint, types, every quick test, every example
	@$(MAKE) --no-print-directory -j 3 suite lint doctests TESTS='$(TESTS)'

# Tests wait for browsers, Ray and other processes a quarter of their time: lint and examples run beside them.
suite: collect
	$(PYTEST) -n $(WORKERS) --dist worksteal --durations 15 --durations-min 1 --processor-time=build/test-times.txt $(TESTS)

test-all: TESTS := --hypothesis-profile thorough
test-all: $(VENV)/all.stamp test  ## the same with more random examples, and the slow tests: the documentation, Ray clusters, walks of users, and more of the same nets, disks and pages

lint: types style texts  ## format, lint, strict types, spelling, and the files that other programs read

types: $(VENV)/test.stamp
	$(BIN)/mypy

style: $(VENV)/test.stamp
	$(BIN)/ruff format --check --output-format concise .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo --no-cache

texts: $(VENV)/test.stamp
	$(BIN)/codespell src tests docs notes benchmarks .github *.md *.toml *.txt *.yml *.cff Makefile
	$(BIN)/validate-pyproject pyproject.toml
	$(SCHEMA)github-workflows .github/workflows/*.yml
	$(SCHEMA)github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/proposal.yml
	$(SCHEMA)github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA)citation-file-format CITATION.cff

# The examples in docstrings run in one process: the workers then need not search every module for them.
# They wait for the collection, which compiles what they import.
doctests: collect
	$(PYTEST) -q --doctest-modules src

# One process compiles the tests here, while mypy runs, and not every worker for itself later.
collect: $(VENV)/test.stamp
	@mkdir -p build
	@$(PYTEST) --collect-only -qq > build/collected.txt || { cat build/collected.txt; exit 1; }

format: $(VENV)/test.stamp  ## rewrite the files as lint wants them, where it can
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

docs: $(VENV)/all.stamp  ## the documentation, into build/site; open build/site/index.html
	$(BIN)/python -m docs.build
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "Open $(CURDIR)/build/site/index.html"

pictures: $(VENV)/test.stamp  ## draw the documentation's pictures anew (an hour)
	$(BIN)/python -m docs.make_pictures
	$(BIN)/python -m docs.report_pictures
	$(BIN)/python -m docs.serve_pictures

dist: $(VENV)/test.stamp  ## the wheel and the source archive, into dist/ (sizes in bytes)
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	@cd dist && wc -c *

bench: $(VENV)/test.stamp  ## every benchmark, one after the other
	@for file in benchmarks/[!_]*.py; do \
	  [ -e "$$file" ] || { echo "no benchmarks yet"; break; }; \
	  echo "== $$file"; $(BIN)/python "$$file" || exit 1; \
	done

constraints:  ## resolve every version anew into constraints.txt (held: torch, torchvision, typer, pymdown-extensions)
	rm -rf build/resolve && mkdir -p build && $(PYTHON) -m venv build/resolve
	grep -E '^($(HELD))==' constraints.txt > build/held.txt
	build/resolve/bin/python -m pip install -qq -U pip
	build/resolve/bin/pip install -qq -c build/held.txt hatchling torch
	build/resolve/bin/pip install -qq -c build/held.txt --no-build-isolation -e '.[$(ALL)]'
	{ sed '/^[^#]/,$$d' constraints.txt; \
	  build/resolve/bin/pip freeze --all --exclude-editable | sed 's/+cpu$$//'; } > build/constraints.txt
	mv build/constraints.txt constraints.txt

clean:  ## remove the environment and everything that was made
	rm -rf $(VENV) demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/made.stamp:
	@command -v $(PYTHON) >/dev/null || { echo "Proofmap needs Python 3.11 or newer; '$(PYTHON)' was not found. Try: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Proofmap needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.11"; exit 1; }
	@echo "[install] environment in $(VENV), with $$($(PYTHON) -V)"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "'$(PYTHON) -m venv' failed; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@touch $@

# The build backend is pinned like the rest, so the build runs in this environment and not in one of its own.
# Nothing is compiled here: of seventeen thousand files a fraction is ever imported, and those are compiled as they are.
# The pip that comes with Python 3.11 takes twice as long to find the versions.
define install
	@echo "[install] proofmap with $(1) (a minute or two)"
	@$(PIP) install --no-compile -c constraints.txt pip hatchling
	@$(PIP) install --no-compile -c constraints.txt --no-build-isolation -e '.[$(1)]'
	@echo "[install] done"
endef

$(VENV)/demo.stamp: $(VENV)/made.stamp pyproject.toml constraints.txt
	$(call install,$(DEMO))
	@touch $@

# Pages are tested in Debian's own Chromium, which only root can install; without it those tests say that they are skipped.
# It is fetched and unpacked while pip works.
chromium:
	@command -v chromium-headless-shell >/dev/null || [ ! -f /etc/debian_version ] || [ "$$(id -u)" != 0 ] || { \
	  echo "[install] chromium, for the tests of pages"; export DEBIAN_FRONTEND=noninteractive; \
	  install="apt-get install -qq -y --no-install-recommends"; \
	  { $$install chromium-headless-shell || { apt-get update -qq && $$install chromium-headless-shell; } || \
	    command -v chromium || $$install chromium; } >/dev/null 2>&1 </dev/null \
	  || echo "[install] chromium cannot be had here; the tests of pages are skipped"; }

# Three pips unpack a third of the pinned versions each, on two cores or more, without a search for versions. The last pip checks that all is there, and
# adds what a platform needs beside them, or what one of the three could not install.
pins-0 pins-1 pins-2: pins-%: newest-pip
	@grep '^[^#]' constraints.txt | grep -Ev '^($(SITE))==' | awk 'NR % 3 == $*' > $(VENV)/pins-$*.txt
	@$(PIP) install --no-compile --no-deps -r $(VENV)/pins-$*.txt 2>/dev/null || true

newest-pip:
	@$(PIP) install --no-compile -c constraints.txt pip hatchling

packages: pins-0 pins-1 pins-2
	$(call install,$(TEST))

$(VENV)/test.stamp: $(VENV)/made.stamp pyproject.toml constraints.txt
	@$(MAKE) --no-print-directory -j 4 packages chromium
	@touch $(VENV)/demo.stamp $@

$(VENV)/all.stamp: $(VENV)/test.stamp
	$(call install,$(ALL))
	@touch $@
