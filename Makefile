# Two commands do all the set-up: `make demo` (the main job) and `make test`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

PYTHON ?= python3
VENV   ?= .venv
RUN    := . $(VENV)/bin/activate &&

# On a CPU the threads of two training processes must not fight over the cores, and nothing may look for a GPU.
CPU_ENVIRONMENT := DS_ACCELERATOR=cpu OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false

.PHONY: help install demo test test-all lint clean
help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# A file left by an install that was cut short makes it due again.
UNFINISHED := $(wildcard $(VENV)/.unfinished)

$(VENV)/.core: pyproject.toml constraints/cpu.txt $(UNFINISHED)
	@./install.sh $(VENV) $(PYTHON) core

$(VENV)/.dev: $(VENV)/.core
	@./install.sh $(VENV) $(PYTHON) dev

install: $(VENV)/.core  ## the package and what it needs, into VENV (.venv), and nothing else

demo: $(VENV)/.core  ## the main job on real text: corpus to evaluated model and report, on this machine's CPU
	@$(RUN) $(CPU_ENVIRONMENT) snakemake --profile cluster_profiles/local --config pipeline=configs/pipelines/demo.yaml -- train_all
	@echo "the report is $(CURDIR)/results/report/index.html"

test: $(VENV)/.dev  ## everything CI runs
	@tests/system_packages.sh
	@$(RUN) $(MAKE) --no-print-directory lint
	@$(RUN) export $(CPU_ENVIRONMENT); python -m pytest -m 'not full' -n 2 --dist loadfile --durations=15 || { \
	  echo "what failed beside other tests runs once more, alone; what fails again fails"; \
	  python -m pytest -m 'not full' --last-failed --last-failed-no-failures none; }

test-all: $(VENV)/.dev  ## the full matrices too (long)
	@tests/system_packages.sh
	@$(RUN) $(CPU_ENVIRONMENT) python -m pytest -n 2 --dist loadfile --durations=30

lint: $(VENV)/.dev  ## ruff, mypy, snakefmt
	@$(RUN) ruff check . && ruff format --check . && mypy && snakefmt --check workflow/Snakefile rules

clean:  ## remove the demo's results (not the environment)
	rm -rf results .snakemake
