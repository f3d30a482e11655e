# k8sbench: `make demo` shows it, `make test` proves it. Everything lands in .venv and .demo.
#
#   make demo                     both frameworks (4 GB of downloads the first time)
#   make demo FRAMEWORKS=paddle   the small download (0.2 GB)
#   make quick                    lint, types, imports, size, unit: no framework, no cluster
#   make lint                     format, lint, and how many docstrings are hard to read
#   make types                    the types, strictly
#   make imports                  which folder may import what
#   make size                     statements and words, beside those of the last release
#   make unit                     the unit tests
#   make test-reader              the tests of the reader alone, a part of them
#   make test-results             the tests of the results alone, another part
#   make coverage                 the unit tests, and how much of k8sbench/ they run
#   make test                     all of it and every tier that this machine can run: what CI runs
#   make tests                    the tests of `make test` alone
#   make times                    what each stage and test of the last `make test` cost
#   make mutations [PART=...]     plant faults in the product, and name those that no test finds
#   make bench                    cost of many jobs, observed ones, Benchmarks, large stores, masking
#   make upstream                 install the published programs that tests/upstream runs
#   make soak                     what is too slow for CI: tests marked soak, ten times the examples,
#                                 the oldest and the newest Kubernetes
#   make soak-kubernetes          the last part alone
#   make golden                   write the golden files anew, to be reviewed
#   make constraints              print the versions that are installed, for constraints.txt
#   make dist                     the wheel and the source distribution, in dist/
#   make release TAG=vX.Y.Z       what a release has: those, chart, notes and checksums in dist/, and
#                                 the operator's image
#   make publish REGISTRY=...     push image and chart, which make release has built
#   make clean                    remove what make made
#   make gpu-figures              on a machine with a GPU: the trainers at full size, then its tests
#   make images REGISTRY=...      the images of images/, by docker, podman or buildah
#   make push REGISTRY=...        ... and push them (docs/images.md)
#   make save REGISTRY=...        ... and write them to files in dist/

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.ONESHELL:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
FRAMEWORKS ?= pytorch paddle
EXTRA_pytorch := torch
EXTRA_paddle := paddle
DEMO_STORE := .demo

# An environment is as good as what it was made from: the stamp's name holds the checksum, so a
# changed pin or extra installs again and nothing else does. pip's own cache keeps the downloads.
comma := ,
empty :=
space := $(empty) $(empty)
DEMO_EXTRAS := $(subst $(space),$(comma),$(foreach f,$(FRAMEWORKS),$(or $(EXTRA_$(f)),$(error FRAMEWORKS=$(f): choose from pytorch paddle))))
# What `make quick` needs, without torch and Paddle (4 GB), and what `make test` needs.
SMALL_EXTRAS := dev
ALL_EXTRAS := torch,paddle,dev
SUM := $(shell cat pyproject.toml constraints.txt k8sbench/__init__.py | sha256sum | cut -c1-12)
DEMO_STAMP := $(VENV)/.installed-$(SUM)-$(subst $(comma),-,$(DEMO_EXTRAS))
SMALL_STAMP := $(VENV)/.installed-$(SUM)-small
ALL_STAMP := $(VENV)/.installed-$(SUM)-all

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# In the environment, so that it also binds the build requirements in pip's isolated builds.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt

.PHONY: help demo quick test check lint types imports size unit test-reader test-results coverage tests
.PHONY: soak times mutations bench gpu-figures golden constraints dist clean images push save upstream
.PHONY: soak-kubernetes release publish
# Two of pip at once in one environment would be one too many; pytest takes the cores by itself.
.NOTPARALLEL:

help:
	@sed -n 's/^#   //p' Makefile

$(VENV)/bin/python:
	@if ! $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
		echo "error: k8sbench needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2
		echo "  Name another: make $(MAKECMDGOALS) PYTHON=python3.12" >&2
		exit 2
	fi
	if ! $(PYTHON) -c 'import ensurepip' 2>/dev/null; then
		echo "error: $(PYTHON) cannot make virtual environments: its ensurepip is missing." >&2
		echo "  On Debian: apt-get install python3-venv" >&2
		exit 2
	fi
	$(PYTHON) -m venv $(VENV)

# What has everything has what the demo and the small environment need.
$(SMALL_STAMP): | $(VENV)/bin/python
	@if [ ! -e $(ALL_STAMP) ]; then
		echo "installing k8sbench[$(SMALL_EXTRAS)] into $(VENV) ..."
		$(VENV)/bin/python -m pip install --quiet --editable '.[$(SMALL_EXTRAS)]'
	fi
	touch $@

$(DEMO_STAMP): | $(VENV)/bin/python
	@if [ ! -e $(ALL_STAMP) ]; then
		echo "installing k8sbench[$(DEMO_EXTRAS)] into $(VENV) ..."
		$(VENV)/bin/python -m pip install --quiet --editable '.[$(DEMO_EXTRAS)]'
	fi
	touch $@

$(ALL_STAMP): | $(VENV)/bin/python
	@echo "installing k8sbench[$(ALL_EXTRAS)] into $(VENV) ..."
	$(VENV)/bin/python -m pip install --quiet --editable '.[$(ALL_EXTRAS)]'
	touch $@

# One framework alone is named; several are "all".
DEMO_ALL := --framework $(if $(word 2,$(FRAMEWORKS)),all,$(FRAMEWORKS))
DEMO_ONE := $(if $(word 2,$(FRAMEWORKS)),,--framework $(FRAMEWORKS))

demo: $(DEMO_STAMP)
	@export K8SBENCH_STORE=$(DEMO_STORE)
	run() { echo; echo "\$$ $$*"; "$(VENV)/bin/$$1" "$${@:2}"; }
	run k8sbench submit deeplabv3p --replicas 2 --backend local $(DEMO_ALL)
	run k8sbench submit deeplabv3p --replicas 2 --amp --backend local $(DEMO_ONE)
	run k8sbench results
	echo
	echo "The runs and their logs are in $(DEMO_STORE); look around with:"
	echo "  K8SBENCH_STORE=$(DEMO_STORE) $(VENV)/bin/k8sbench list"

test: check

# All is installed at once, before the small environment is asked for.
check: $(ALL_STAMP) lint types imports size tests

quick: lint types imports size unit

lint: $(SMALL_STAMP)
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/python -m tests.prose

types: $(SMALL_STAMP)
	$(VENV)/bin/mypy

imports: $(SMALL_STAMP)
	$(VENV)/bin/lint-imports --no-cache
	$(VENV)/bin/python -m tests.import_cycles

size: $(SMALL_STAMP)
	$(VENV)/bin/python -m tests.size

PYTEST := $(VENV)/bin/python -m pytest
# The tiers that start servers wait for them half of the time: three workers on two cores, each with
# its own. A test that fails there runs once more, alone (tests/rerun.py).
SERVER_TIERS := tests/cluster tests/node tests/chart tests/prometheus tests/browser
# Tests of one file may share what they look at, such as the processes of this machine.
IN_FILES := --dist loadfile --no-loadscope-reorder
BY_FILE := --numprocesses=2 $(IN_FILES)
# Frameworks side by side get in each other's way where each sees all cores.
ON_A_CORE := -p tests.harness.pinning
# Records what a stage costs, for `make times`.
STAGE := $(VENV)/bin/python -m tests.times run
# What is marked with a tier needs more than Python packages (tests/README.md).
QUICKLY := -m 'not tier and not slow' --hypothesis-profile=quick $(BY_FILE)
UNIT := tests/unit tests/reader tests/results tests/simulation $(QUICKLY)

unit: $(SMALL_STAMP)
	$(PYTEST) $(UNIT)

# Each without cluster and command line (tests/README.md).
test-reader: $(SMALL_STAMP)
	$(PYTEST) tests/reader $(QUICKLY)

test-results: $(SMALL_STAMP)
	$(PYTEST) tests/results $(QUICKLY)

coverage: $(SMALL_STAMP)
	$(PYTEST) $(UNIT) --cov --cov-report=term:skip-covered

tests: $(ALL_STAMP)
	$(STAGE) main $(PYTEST) -p tests.times --times=main $(BY_FILE) $(ON_A_CORE) $(addprefix --ignore=,$(SERVER_TIERS))
	$(STAGE) servers $(VENV)/bin/python -m tests.rerun -p tests.times --times=servers --numprocesses=3 $(IN_FILES) $(SERVER_TIERS)
	$(VENV)/bin/python -m tests.tiers

times: $(SMALL_STAMP)
	$(VENV)/bin/python -m tests.times

mutations: $(SMALL_STAMP)
	$(VENV)/bin/python -m tests.mutations $(PART)

bench: $(ALL_STAMP)
	$(VENV)/bin/python tests/bench/many_jobs.py
	$(VENV)/bin/python tests/bench/observed_jobs.py
	$(VENV)/bin/python tests/bench/many_objects.py
	$(VENV)/bin/python tests/bench/store_size.py
	$(VENV)/bin/python tests/bench/masking.py

# The tests install them too, when they first need them.
upstream: $(ALL_STAMP)
	$(VENV)/bin/python -m tests.harness.upstream

soak: $(ALL_STAMP) soak-kubernetes
	$(PYTEST) $(BY_FILE) --soak tests
	$(PYTEST) $(BY_FILE) tests/unit tests/reader tests/results --hypothesis-profile=soak --timeout 3000
	$(VENV)/bin/python -m tests.simulation 0 100000

# What of the cluster tier depends on Kubernetes most: types, permissions, jobs, chart, operator.
ON_KUBERNETES := $(patsubst %,tests/cluster/test_%.py,api manifests commands_submit doctor ownership observe chart operator)

soak-kubernetes: $(SMALL_STAMP)
	for one in oldest newest; do
		$(VENV)/bin/python -m tests.harness.cluster.tools $$one
		K8SBENCH_TEST_KUBERNETES=$$one K8SBENCH_REQUIRE_TIERS=cluster $(PYTEST) $(BY_FILE) $(ON_KUBERNETES)
	done

# GPU_PYTHON names a Python that has what is needed, where nothing can be installed (docs/measured.md).
GPU_RUN := $(or $(GPU_PYTHON),$(VENV)/bin/python) -m
gpu-figures: $(if $(GPU_PYTHON),,$(ALL_STAMP))
	export K8SBENCH_STORE=$(or $(FIGURES),dist/gpu-figures) PYTHONPATH=$(CURDIR)
	for benchmark in resnet50 tsm deeplabv3p gpt; do for amp in '' --amp; do
		$(GPU_RUN) k8sbench submit $$benchmark $$amp --backend local --framework pytorch --warmup 20 --iterations 50
	done; done
	$(GPU_RUN) k8sbench results -o wide
	FIGURES=$$K8SBENCH_STORE $(GPU_RUN) tests.gpu.peers
	PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 K8SBENCH_REQUIRE_TIERS=gpu $(GPU_RUN) pytest -p tests.gpu.without_timeout tests/gpu

# Needs Python and a container engine, for the operator also its wheel; reads REGISTRY, ENGINE, BASE
# and PIP_CONFIG_FILE. IMAGES="pytorch paddle" takes some of them, without .venv.
images: $(if $(filter operator,$(or $(IMAGES),operator)),dist)
	@$(PYTHON) images/build.py $(IMAGES)

push: images
	@$(PYTHON) images/build.py --push $(IMAGES)

save: images
	@$(PYTHON) images/build.py --save dist $(IMAGES)

golden: $(SMALL_STAMP)
	K8SBENCH_UPDATE_GOLDEN=1 $(VENV)/bin/python -m pytest tests/unit tests/reader tests/results tests/chart -k golden
	K8SBENCH_UPDATE_GOLDEN=1 $(VENV)/bin/python -m pytest --soak tests/unit tests/results -k golden

constraints: $(ALL_STAMP)
	$(VENV)/bin/python -m pip list --format=freeze --exclude-editable --exclude pip

dist: $(SMALL_STAMP)
	$(VENV)/bin/python -m build --no-isolation --outdir dist .

# What the workflow of a release runs, and a test rehearses; the image is in the engine's storage.
HELM ?= helm
release: $(SMALL_STAMP)
	@rm -rf dist
	mkdir dist
	$(PYTHON) .ci/notes.py "$${TAG:-}" > dist/NOTES.md
	$(VENV)/bin/python -m build --no-isolation --outdir dist .
	$(HELM) package charts --destination dist
	$(PYTHON) images/build.py operator
	cd dist
	sha256sum *.whl *.tar.gz *.tgz > SHA256SUMS
	sha256sum --check SHA256SUMS

# PLAIN_HTTP=1 for a registry without TLS; the engine has a setting of its own for that.
publish:
	@$(PYTHON) images/build.py --push operator
	$(HELM) push dist/dlperf-*.tgz oci://$(REGISTRY) $(if $(PLAIN_HTTP),--plain-http)

clean:
	rm -rf $(VENV) $(DEMO_STORE) dist build
