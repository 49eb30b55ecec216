# Everything one does with this tree: `make` names what a newcomer needs, `make more` the rest.
# A target's line there follows `##` or `#:`.

.DEFAULT_GOAL := help
.PHONY: help more run test quick lint static figures collected unit test-deps bench docs dist audit constraints install uninstall clean venv venv-test proof

VENV := .venv
PY := $(VENV)/bin/python
ARGS :=
WHAT := run
WORKERS := 5
QUICK := actors app commands config core httpserver journal lib schedulers
# The others are named to pytest: of a folder that is, even the process that only hands tests out
# loads what its fixtures need.
NOT_QUICK := $(filter-out $(QUICK:%=tests/%/),$(wildcard tests/*/))

install uninstall: export PREFIX := $(PREFIX)
install uninstall: export NAME := $(NAME)
install uninstall: export DESTDIR := $(DESTDIR)
install: export EXTRAS := $(EXTRAS)

# Else each of the hundreds of processes that the tests start would compile the program anew.
test quick unit: export PYTHONDONTWRITEBYTECODE :=

help:
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20
	@echo "And \`make proof\` names the long proofs, \`make more\` everything else."

more: #: list the other targets
	@sed -n '/^proof-/d; s/^\([a-z-]*\):.*#: \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

run: venv ## watch the daemon keep a small cluster of local processes (Ctrl-C ends it); WHAT=slurm|two shows more
	@if [ $(WHAT) = slurm ]; then etc/install/test-deps slurm; fi
	@if [ $(WHAT) = two ]; then etc/install/test-deps postgres; etc/install/venv $(VENV) postgres; fi
	@exec $(PY) etc/demo/$(WHAT).py start

test: venv-test ## lint, types, layers and the whole test suite; ARGS="..." goes to pytest
	@$(MAKE) --no-print-directory -j2 lint collected; lint=$$?; $(MAKE) --no-print-directory unit && exit $$lint

quick: static ## for every change: lint, types, layers, and the tests that neither wait nor open sockets
	$(PY) -m pytest -n 2 --quick $(NOT_QUICK:%=--ignore=%) $(ARGS)

docs: venv-test ## build the manual into doc/_build/html, and its manual pages into doc/_build/man
	@$(PY) -m doc.generate
	@$(PY) -m sphinx -W --keep-going -q -b html doc doc/_build/html
	@$(PY) -m sphinx -W --keep-going -q -b man doc doc/_build/man
	@echo "doc/_build/html/index.html; man -l doc/_build/man/nodemanager.1"

install: ## install as a systemd service (root; PREFIX=/opt/nodemanager NAME=ec2 EXTRAS="postgres"); again: upgrade
	@etc/install/install

uninstall: #: take the program away again; configuration and state are kept
	@etc/install/uninstall

test-deps: #: install the system servers that some tests need (apt-get, as root or by sudo)
	@etc/install/test-deps

static: venv-test
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

lint: static
	$(PY) -m mypy etc/demo/run.py etc/demo/slurm.py etc/demo/two.py etc/install/nodes.py etc/install/audit.py doc/screens.py doc/timeline.py
	$(PY) -m mypy -p doc.generate

figures: venv-test #: how big the package is, and what is biggest in it; ARGS=--all
	@$(PY) -m tests.figures $(ARGS)

# While one processor lints, the other compiles the tests, which else each worker would do.
collected: venv-test
	@$(PY) -m pytest --collect-only -qq >/dev/null || true

# More workers than a small machine has processors: a third of the tests mostly wait.
unit: venv-test
	$(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

bench: venv-test #: measure the planner and the daemon, print a table
	@$(PY) -m benchmarks $(ARGS)

dist: docs #: build the wheel and the source distribution, with the manual pages, into dist
	@rm -rf build dist
	@$(PY) etc/install/dist.py dist

audit: dist #: that, its SBOM and licences into dist, and what advisories know of it (3: none could be asked)
	@$(PY) etc/install/audit.py dist

constraints: #: pin the newest versions that setup.py allows, with their hashes; ARGS=--no-upgrade: only what is new
	@etc/install/constraints $(ARGS)

clean: #: end what the demo left running; remove all that was built
	@if [ -x $(PY) ]; then $(PY) etc/demo/run.py end; $(PY) etc/demo/slurm.py end; fi
	rm -rf $(VENV) .demo .demo-slurm .demo-two .openstack build dist doc/_build doc/_made *.egg-info .*_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The proofs, each a target of its own: `make proof NAME=soak`. Their times are for two processors.
ifeq ($(NAME),)
proof:
	@sed -n 's/^proof-\([a-z]*\):.*#: \(.*\)/  make proof NAME=\1\t\2/p' Makefile | expand -t 29
else
proof: proof-$(NAME)
endif

proof-soak: venv-test #: play SEEDS=1000 simulated worlds from FIRST=0 on; prints a failing one as a script (8 minutes)
	@$(PY) -m tests.simulation.soak --seeds $(or $(SEEDS),1000) --first $(or $(FIRST),0)

proof-census: venv-test #: count in how many of SEEDS=1000 simulated worlds each reason is given, name those in none (8 minutes)
	@$(PY) -m tests.simulation.census --seeds $(or $(SEEDS),1000) --first $(or $(FIRST),0)

proof-mutants: venv-test #: switch each rule off, find the seed or test that notices, for doc/proof (8 minutes)
	@$(PY) -m tests.simulation.mutation $(ARGS)
	@$(PY) -m tests.mutation $(ARGS)

proof-worlds: venv-test #: play all worlds, explorations and mutants, of which `make test` plays a part (9 minutes)
	$(PY) -m pytest -q -n 2 -m "proof or not proof" tests/test_simul*.py tests/test_mutants.py tests/core/execute $(ARGS)

proof-processes: venv-test #: what `make test` leaves out of the tests of real processes and of vendors' SDKs (2 minutes)
	$(PY) -m pytest -q -n 3 --dist loadfile -m "proof and not slurm" tests/live tests/cloud $(ARGS)

proof-release: venv-test #: a stranger's quick start from the wheel, an upgrade under running nodes, `make venv` (1 minute)
	$(PY) -m pytest -q -n 2 --dist loadfile -m proof tests/packaging $(ARGS)

proof-chaos: venv-test #: kill -9 a real daemon KILLS=200 times at random points, then hurt two managers; ARGS="--seed N" (30 minutes)
	@$(PY) -m tests.live.chaos --kills $(or $(KILLS),200) $(ARGS)
	@$(PY) -m tests.live.chaos_two --kills $(or $(KILLS),200) $(ARGS)

proof-hostile: venv-test #: a daemon under WORDS=10000 hostile orders, rows and requests: it lives and answers pings (3 minutes)
	@HOSTILE=$(or $(WORDS),10000) $(PY) -m pytest -q -n 0 tests/live/test_hostile.py $(ARGS)

proof-outage: venv-test #: an incident on the dashboard: a real Prometheus fires three alerts, orders by button end them (40 s)
	@$(PY) -m pytest -q -n 0 -m proof tests/live/test_outage.py $(ARGS)

proof-rotation: venv-test #: replace the image of NODES=10 local nodes that work: no job is lost (2 minutes)
	@ROTATION_NODES=$(or $(NODES),10) $(PY) -m pytest -q -s -m proof tests/live/test_rotation.py $(ARGS)

proof-dispatch: venv-test #: play ROUNDS=10 rounds of a scheduler on EC2's API (moto): no busy node is destroyed (7 minutes)
	@DISPATCH_ROUNDS=$(or $(ROUNDS),10) $(PY) -m pytest -q -m "proof or not proof" tests/live/test_idle.py $(ARGS)

proof-race: venv-test #: race pings against cleans RACES=10000 times on each store; ARGS="--seed N --store arvados" (15 minutes)
	@$(PY) -m tests.contract.race --races $(or $(RACES),10000) $(ARGS)

proof-slurm: venv-test #: on a real Slurm: lost nodes and controllers, JOBS=100 short jobs, all scripts (20 minutes)
	@SLURM_JOBS=$(or $(JOBS),100) $(PY) -m pytest -q -n 0 -m slurm tests/schedulers/test_slurm_scripts.py tests/records/test_slurm_records.py tests/live/test_slurm_long.py tests/live/test_slurm_records.py tests/live/test_demo.py $(ARGS)

proof-systemd: venv-test #: the installed service under a real systemd in namespaces of its own, as root (2 minutes)
	@$(PY) -m pytest -q -n 0 -m systemd tests/systemd $(ARGS)

proof-openstack: venv-test #: start a real OpenStack below /tmp, run the adapter's tests on it, end it (15 minutes)
	@etc/install/openstack .openstack
	@exec $(PY) -m tests.openstack .openstack $(ARGS)

proof-incident: venv-test #: record an incident on the local cloud anew, into doc/incident (4 minutes)
	@$(PY) -m tests.live.incident doc/incident
	@$(PY) doc/timeline.py
	@$(PY) doc/screens.py
	@echo "Its story in doc/incident.rst, and the examples in doc/tune.rst, are of the one before"

venv:
	@etc/install/venv $(VENV)

# CI has no one to run `make test-deps` first.
venv-test:
	@if [ "$$CI" = true ]; then etc/install/test-deps; fi
	@etc/install/venv $(VENV) $$(etc/install/extras)
