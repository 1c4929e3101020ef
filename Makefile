# Every target is a short call of a command that can also be run on its own.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo bench bench-collectives check test test-all ci lint unit integration sanity units molecule docs clean

# Ansible needs UTF-8, and ignores the ansible.cfg of a world-writable directory unless it is named.
export LC_ALL := C.UTF-8
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
# The Python to make .venv with; by default the first of version 3.11 to 3.14 on PATH.
export PYTHON

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## make this machine a cluster of one host (in .cluster/, no root) and fine-tune a language model on it
	@echo "Makes this machine a cluster of one host inside this directory (.venv, .cluster, results), then fine-tunes MiniLM on its CPU cores."
	@tools/make_venv.sh
	.venv/bin/amx site --yes
	.venv/bin/amx train jobs/demo.yml
	.venv/bin/amx results demo

bench: ## measure what the collection adds and gains, on hosts of this machine (root, Docker; nothing else should run meanwhile)
	@tools/make_venv.sh tests
	.venv/bin/python tests/benchmarks/performance.py $(if $(WRITE),--write $(WRITE))

bench-collectives: ## measure collectives between two ranks of this machine, with backend mpi beside gloo (after make demo)
	.venv/bin/amx train jobs/collectives.yml --set ranks_per_node=2

check: ## lint and quick unit tests, in 2 minutes: for every change
test: ## in 10 minutes, what shows that the product works: check, ansible-test sanity, the demo, refusals, and a cluster of three hosts
test-all: ## everything; what `make test` leaves out is named in its output
ci: ## make test, then scenarios, tests with ranks and of playbooks, and slow unit tests, as far as they end within an hour
check test test-all ci:
	@tools/make_venv.sh tests
	@.venv/bin/python tests/run.py $@

lint: ## ansible-lint, yamllint, ruff, mypy, generated docs, language, changelog, the built collection
unit: ## unit tests
integration: ## site.yml on this machine, refusals and their messages, the hub, plans tested with Intel MPI and OpenMP
sanity: ## ansible-test sanity, in a copy of the collection
units: ## the unit tests once more, as ansible-test runs them: in a copy, in a virtual environment of their own
lint unit integration sanity units:
	@tools/make_venv.sh tests
	@.venv/bin/python tests/run.py $@

molecule: ## the scenarios on clusters of containers; a single one: make molecule SCENARIO=default
	@tools/make_venv.sh tests
	@.venv/bin/python tests/run.py molecule $(SCENARIO)

docs: ## generate the JSON Schema of job files and blocks of pages, and build the site of the documentation; PICTURES=1: draw the pictures of terminals anew, from a run of the demo's job
	@tools/make_venv.sh tests
	@$(if $(PICTURES),.venv/bin/python tools/terminal_pictures.py)
	@.venv/bin/python tools/generated_docs.py write
	@.venv/bin/python tools/docs_site.py

clean: ## remove .venv and caches; keep what the demo installed and trained (.cluster, results)
	rm -rf .venv .cache .ansible .mypy_cache .ruff_cache .pytest_cache .hypothesis
