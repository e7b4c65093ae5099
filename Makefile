# Every target makes its own environment from nothing but Python and a package index.
# constraints.txt pins every version, so that two machines get the same ones.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
LIBRARY := $(VENV)/.library
READY  := $(VENV)/.ready
OTHER  := .venv-diffprivlib

.PHONY: demo federation test test-slow test-all test-lowest test-pandapower audit-arithmetic soak coverage bench bench-diffprivlib bench-peers lint docs gallery clean

PARTS := federation power papers verify
# the library alone, which is all that its commands need
$(LIBRARY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable .
	touch $(LIBRARY)
$(READY): $(LIBRARY) $(PARTS:%=%/pyproject.toml) constraints-federation.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement constraints-federation.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[dev,docs]' $(PARTS:%=--editable %)
	touch $(READY)

demo: $(LIBRARY)          ## a hundred agents train on UCI Adult under a total budget of epsilon 1
	$(BIN)/taciturn train adult --agents 100 --epsilon 1 --delta 1e-6 --out demo --force

federation: $(READY)      ## five sites on this machine train together over TLS; one is killed and comes back
	$(BIN)/python docs/five_sites.py --folder build/federation

# Tests compile many programs and run each for a moment: XLA need not optimise or fuse them.
# `make test TEST_XLA_FLAGS=` tests the programs as users run them.
TEST_XLA_FLAGS ?= --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1
# Without cached bytecode every worker and every command would compile all modules again.
export PYTHONDONTWRITEBYTECODE :=
# A file is run by one worker, so that its fixtures, programs and claims are computed once. A test
# that does not end is a failure after twenty minutes, and the others go on.
PYTEST := XLA_FLAGS="$(TEST_XLA_FLAGS)" $(BIN)/python -m pytest --numprocesses auto --dist loadfile \
	-o faulthandler_timeout=1200 -o faulthandler_exit_on_timeout=true
# What the arithmetic of a machine may do depends on the compiler: of these the quick tests run either
# way, the slow ones as users run them.
COMPUTED := tests/attacks/test_attacks.py tests/privacy/test_what_is_computed.py tests/kernel/test_rounding.py

test: $(READY)            ## the quick suite, minutes: every law with its planted fault, on all cores
	$(PYTEST) --doctest-modules -m "not slow" --durations=10

test-slow: $(READY)       ## the slow tests alone: claims, reproductions, power flow, images, wheels
	$(PYTEST) --no-loadscope-reorder -m slow --durations=10 $(COMPUTED:%=--ignore=%)
	$(BIN)/python -m pytest --numprocesses auto $(COMPUTED)

test-all: test test-slow  ## everything

# what a cell is read as, and a run, on the lowest versions that pyproject.toml permits
LOWEST := .venv-lowest
$(LOWEST)/.ready: pyproject.toml $(PARTS:%=%/pyproject.toml) constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints-lowest.txt --editable . $(PARTS:%=--editable %) beartype hypothesis opendp pytest pytest-xdist
	touch $@

test-lowest: $(LOWEST)/.ready   ## tables, noise and a training on the lowest versions, minutes
	XLA_FLAGS="$(TEST_XLA_FLAGS)" $(LOWEST)/bin/python -m pytest --numprocesses auto --dist loadfile -m "not slow" tests/tables tests/noise tests/training

# pandapower needs an older pandas than the pinned one
PANDAPOWER := .venv-pandapower
$(PANDAPOWER)/.ready: pyproject.toml power/pyproject.toml
	$(PYTHON) -m venv $(PANDAPOWER)
	$(PANDAPOWER)/bin/python -m pip install --quiet --disable-pip-version-check --editable . --editable './power[pandapower]' 'pandapower==3.5.6' matpowercaseframes pytest beartype
	touch $@

test-pandapower: $(PANDAPOWER)/.ready   ## networks written and read beside pandapower itself, minutes
	$(PANDAPOWER)/bin/python -m pytest -q tests/power/test_pandapower.py tests/power/test_export.py

audit-arithmetic: $(READY)   ## attacks on answers as this machine computes them, a minute; with FULL=1 hours
	$(BIN)/python -m tests.attacks $(if $(FULL),--full)

SOAK_SECONDS ?= 3600
SOAK_SEED    ?=
soak: $(READY)            ## random plans against the laws, for hours: `make soak SOAK_SECONDS=36000`
	$(if $(SOAK_SEED),,XLA_FLAGS="$(TEST_XLA_FLAGS)" $(BIN)/python -m tests.soak.federation)
	XLA_FLAGS="$(TEST_XLA_FLAGS)" $(BIN)/python -m tests.soak --seconds $(SOAK_SECONDS) $(if $(SOAK_SEED),--seed $(SOAK_SEED))

coverage: $(READY)        ## the same with branch coverage
	$(PYTEST) --doctest-modules --cov --cov-report=term:skip-covered

bench: $(READY)           ## speed, memory and accuracy, as ratios measured in one process
	$(BIN)/python -m bench

# diffprivlib needs an older scikit-learn than this project's
$(OTHER)/.ready:
	$(PYTHON) -m venv $(OTHER)
	$(OTHER)/bin/python -m pip install --quiet --disable-pip-version-check 'diffprivlib==0.6.6' 'scikit-learn==1.7.2'
	touch $@

bench-diffprivlib: $(READY) $(OTHER)/.ready   ## accuracy against diffprivlib, some minutes
	$(BIN)/python -m bench.against_diffprivlib $(OTHER)/bin/python

# each in an environment of its own; decent-bench needs Python 3.13
bench-peers: $(READY) $(OTHER)/.ready   ## seconds a round beside Flower, APPFL, decent-bench and diffprivlib
	test -e .venv-flower || { $(PYTHON) -m venv .venv-flower && .venv-flower/bin/python -m pip install --quiet 'flwr[simulation]==1.41.0'; }
	test -e .venv-appfl || { $(PYTHON) -m venv .venv-appfl && .venv-appfl/bin/python -m pip install --quiet 'appfl==1.12.0'; }
	test -e .venv-decent || { python3.13 -m venv .venv-decent && .venv-decent/bin/python -m pip install --quiet 'decent-bench==0.3.0'; }
	$(BIN)/python -m bench.against_peers .venv-flower/bin/python .venv-appfl/bin/python .venv-decent/bin/python $(OTHER)/bin/python

lint: $(READY)            ## format, style, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(READY)            ## the documentation, in build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

gallery: $(READY)         ## the figures of the papers, drawn again at their default scale: hours
	$(BIN)/python papers/docs/gallery.py --run build/gallery

clean:
	rm -rf $(VENV) $(LOWEST) $(OTHER) .venv-flower .venv-appfl .venv-decent demo build
