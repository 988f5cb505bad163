# Two commands matter: `make book` and `make test`. Each makes the environment that it needs.
#
#   make book                      the HTML book, in _build/html
#   make test                      lint, formatting, every notebook under nbval, tests, and the book of those notebooks
#   make PYTHON=python3.12 test    with a Python of your choice (3.11 or newer)

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV ?= .venv
# The first of these that runs and is new enough.
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo "$$p" && break; done)

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
READY := $(VENV)/.ready
BENCH_VENV ?= .venv-bench
BENCH_BIN := $(BENCH_VENV)/bin
BENCH_PIP := $(BENCH_BIN)/python -m pip --quiet --disable-pip-version-check
BENCH_READY := $(BENCH_VENV)/.ready
BENCH ?=
HTML := _build/html/index.html
PDF := _build/under-the-clip.pdf
# Anything that prints as Chromium 131 or newer does.
CHROMIUM ?= $(shell for c in chromium chromium-browser google-chrome; do command -v $$c && break; done)
NOTEBOOKS = $(filter-out notebooks/out%,$(wildcard notebooks/*.ipynb))

# A file, or a class of it, stays with one process. More than four only import what each needs once more.
SIDE_BY_SIDE ?= --numprocesses logical --maxprocesses 4 --dist loadscope --no-loadscope-reorder

# Quiet, and the same on every machine. Which device JAX uses is left to the machine.
export PYTHONHASHSEED := 0
export PYDEVD_DISABLE_FILE_VALIDATION := 1
# What is compiled is kept, or each process that a test starts compiles it again.
export PYTHONDONTWRITEBYTECODE :=
export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: help env book chromium pdf links test lint smoke faults notebooks bench bench-lock lock clean distclean

help:  ## say what each target does
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

# By uv, in a third of pip's time; by pip where that alone is told which index is in reach.
env: $(READY)  ## the environment in .venv, every version and hash from requirements.lock

$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer found: make PYTHON=/path/to/python $(MAKECMDGOALS)" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { echo "Making $(VENV) with $(PYTHON)"; $(PYTHON) -m venv --clear $(VENV); }
	@echo "Installing what requirements.lock names into $(VENV) (a minute)"
	@sed -n '/^uv==/,/[^\\]$$/p' requirements.lock >$(VENV)/uv.txt
	@$(PIP) install --no-deps --require-hashes --requirement $(VENV)/uv.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --no-deps --require-hashes \
		--requirement requirements.lock 2>/dev/null || $(PIP) install --no-deps --require-hashes --requirement requirements.lock
	@$(PIP) install --no-build-isolation --no-deps --editable .
	@mkdir -p $(VENV)/etc/ipython  # each notebook's kernel would warn that it does not encrypt to itself
	@echo 'c.IPKernelApp.log_level = "ERROR"' >$(VENV)/etc/ipython/ipython_kernel_config.py
	@touch $@

# Through sphinx-build, since jupyter-book reads one page after the other. Several pages share a core:
# a notebook waits for its kernel, and Sphinx deals pages out in runs of neighbours that differ in length.
PAGES_AT_ONCE ?= 8
# -a -E: a figure depends on results/ and src/, which Sphinx does not watch. EXECUTED names a cache of notebooks that
# nbval ran a moment ago; they are not run again, and one process reads and writes them in less time of the processor.
book: $(READY)  ## build the book; ends with the path of its first page
	@$(BIN)/jupyter-book config sphinx . >/dev/null
	@PYTHONPATH=book/_ext $(BIN)/sphinx-build -b html -j $(if $(EXECUTED),1,$(PAGES_AT_ONCE)) -a -E -W -n --keep-going -q \
		$(if $(EXECUTED),-D nb_execution_mode=cache -D nb_execution_cache_path=$(EXECUTED)) . _build/html
	@echo "$(CURDIR)/$(HTML)"

chromium:
	@test -n "$(CHROMIUM)" || { echo "The PDF is printed by Chromium or Chrome, and neither is here: make CHROMIUM=/path/to/it pdf" >&2; exit 1; }

pdf: chromium book  ## build the book and print it as one PDF; ends with its path
	@$(BIN)/python tools/print_book.py "$(CHROMIUM)" _build/html $(PDF)
	@echo "$(CURDIR)/$(PDF)"

links: $(READY)  ## check the links that leave the book (wants a network)
	@$(BIN)/jupyter-book config sphinx . >/dev/null
	@PYTHONPATH=book/_ext $(BIN)/sphinx-build -b linkcheck -D nb_execution_mode=off -a -E -Q . _build/links || { \
		grep -F '[broken]' _build/links/output.txt; exit 1; }

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

test: lint  ## lint, formatting, every notebook under nbval, tests, and the book of these notebooks
	@status=0; \
	$(BIN)/python -m pytest --numprocesses $(PAGES_AT_ONCE) --dist loadscope --nbval-lax notebooks || status=1; \
	EXECUTED=_build/executed/cache $(BIN)/python -m pytest $(SIDE_BY_SIDE) tests || status=1; \
	exit $$status

smoke: $(READY)  ## tests of many seconds each, and every chapter's experiments at a small scale (minutes, no dataset)
	@$(BIN)/python -m pytest -m smoke tests || test $$? -eq 5
	@mkdir -p _build/smoke
	@for nb in $(NOTEBOOKS); do echo "$$nb" && \
		$(BIN)/papermill --no-progress-bar -p profile smoke "$$nb" "_build/smoke/$$(basename "$$nb")" || exit 1; done

faults: $(READY)  ## try many damaged inputs and killed processes (minutes)
	@$(BIN)/python -m pytest -m faults tests || test $$? -eq 5

notebooks: $(READY)  ## make the notebooks from their percent scripts
	@$(BIN)/python tools/refresh_notebooks.py $(filter-out %/conftest.py,$(wildcard notebooks/*.py))

# Torch and its peers are heavy: they have an environment of their own. On Linux its lock wants torch's
# CPU build, which the package index does not carry: uv, which the lock brings, knows where PyTorch keeps
# it. Where that is out of reach, let PIP_FIND_LINKS name a folder with the wheel, and pip takes it.
#
#   make bench BENCH="--quick"                 a trial on MNIST; nothing is stored
#   make bench BENCH="--network cifar-10"      see .venv-bench/bin/python benchmarks/run.py --help
bench: $(BENCH_READY)  ## compare with other libraries: speed and memory (20 to 25 minutes on two quiet cores)
	@status=0; \
	$(BENCH_BIN)/python -m pytest -q -p no:cacheprovider -W ignore benchmarks/test_against_peers.py || status=1; \
	$(BENCH_BIN)/python benchmarks/run.py $(BENCH) || status=1; \
	exit $$status

$(BENCH_READY): benchmarks/requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer found: make PYTHON=/path/to/python bench" >&2; exit 1; }
	@$(BENCH_BIN)/python -m pip --version >/dev/null 2>&1 || { echo "Making $(BENCH_VENV) with $(PYTHON)"; $(PYTHON) -m venv --clear $(BENCH_VENV); }
	@echo "Installing what benchmarks/requirements.lock names into $(BENCH_VENV) (a few minutes)"
	@sed '/^torch==.*+cpu/,/[^\\]$$/d' benchmarks/requirements.lock >$(BENCH_VENV)/others.txt
	@sed -n '/^torch==.*+cpu/,/[^\\]$$/p' benchmarks/requirements.lock >$(BENCH_VENV)/torch.txt
	@$(BENCH_PIP) install --no-deps --require-hashes --requirement $(BENCH_VENV)/others.txt
	@$(BENCH_PIP) install --no-deps --require-hashes --requirement $(BENCH_VENV)/torch.txt 2>/dev/null || \
		$(BENCH_BIN)/uv pip install --quiet --python $(BENCH_BIN)/python --torch-backend cpu \
			--no-deps --require-hashes --requirement $(BENCH_VENV)/torch.txt || { \
		echo "No CPU build of torch in reach that the lock has a hash for: see the Makefile, above bench" >&2; exit 1; }
	@$(BENCH_PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

bench-lock:  ## resolve the benchmark's environment into benchmarks/requirements.lock again
	@$(PYTHON) -m venv _build/lock
	@_build/lock/bin/python -m pip --quiet --disable-pip-version-check install 'uv>=0.8'
	@_build/lock/bin/python benchmarks/lock.py

# Makes its own uv; keeps the versions in the lock unless asked: make lock UPGRADE=--upgrade
lock:  ## resolve pyproject.toml into requirements.lock again
	@$(PYTHON) -m venv _build/lock
	@_build/lock/bin/python -m pip --quiet --disable-pip-version-check install 'uv>=0.8'
	@_build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest --generate-hashes \
		--extra book --extra test --extra build $(UPGRADE) pyproject.toml --output-file requirements.lock

clean:  ## remove what the targets made, except .venv and .venv-bench
	@rm -rf _build .pytest_cache .ruff_cache .hypothesis notebooks/out*.ipynb out*.ipynb
	@find src tests notebooks benchmarks -type d \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +

distclean: clean  ## and the environments
	@rm -rf $(VENV) $(BENCH_VENV)
