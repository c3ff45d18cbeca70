# The one entry to this repository: every target works from a bare Debian 12 and a clone.
#   make demo       install what is missing, build (without GPU code where there is no GPU), show what cplab says about
#                   an 8-GPU node
#   make test       install, build everything, then all tests; SANITIZERS=1 adds the sanitizer run (as .ci/run does)
#   make nightly    what CI leaves out: all sanitizers, whole grids, every emulated kernel, tables of the pages
#   make build      build/release/cplab alone, with GPU code wherever nvcc is
#   make gpu        the programs that check, time and measure on a GPU too (needs nvcc); scripts/gpu/ runs them
#   make grid       every three and every four choices of every algorithm verified together, and 110000 mutants
#   make wheel-test build the wheel of the Python package and try it in a fresh venv (needs the registry of Python);
#                   PYTHON="python3.12 python3.13": built by the first, tried with both
#   make fuzz       hostile input for the readers of files and messages, a minute each (installs clang when missing)
#   make figures    draw the figures of README and docs anew (installs matplotlib and Chromium when missing)
#   make site       the pages of docs/ as a static site in build/site/html (installs mkdocs when missing)
#   make format     clang-format 14 over all C++ and CUDA files
#   make clean      remove build/
.NOTPARALLEL:
.PHONY: demo test nightly build gpu grid fuzz figures plots site format clean setup wheel-test

SANITIZERS ?= 0
ifeq ($(SANITIZERS),1)
PRESET := ci
else
PRESET := release
endif

# The demo runs no kernel on a GPU: where there is none, and build/release holds no GPU code yet, it does not wait for nvcc.
GPUS := $(wildcard /dev/nvidia[0-9]* /dev/dxg)
BUILT := $(wildcard build/release/CMakeCache.txt)
ifneq ($(BUILT),)
BUILT := $(shell grep -q '^CPLAB_DEMO:BOOL=ON' $(BUILT) || echo whole)
endif

demo: setup
	@scripts/build.sh $(if $(GPUS)$(BUILT),release,demo) cplab
	@build/release/cplab demo

test:
	@scripts/setup.sh build test
	@scripts/build.sh $(PRESET)
	@scripts/test.sh $(PRESET)

nightly:
	@scripts/setup.sh build test
	@scripts/setup.sh browser || echo "cplab: without a browser" >&2
	@scripts/setup.sh python || true
	@scripts/python_venv.sh
	@scripts/build.sh nightly
	@scripts/test.sh nightly
	@$(MAKE) wheel-test
	@docs/shown/notebook.sh
	@docs/shown/notebook.sh build/wheel-test/dist/cplab-*.whl

build: setup
	@scripts/build.sh release cplab

gpu: setup
	@scripts/build.sh release gpu

setup:
	@scripts/setup.sh build

grid: setup
	@scripts/build.sh release grid mutants plan_mutants
	@build/release/grid --strength 3 --scale 16
	@build/release/grid --strength 4
	@build/release/mutants 10000
	@build/release/plan_mutants 100000

fuzz: setup
	@scripts/setup.sh fuzz || echo "cplab: without clang" >&2
	@scripts/fuzz.sh

figures plots: build
	@scripts/setup.sh figures
	@scripts/setup.sh browser || echo "cplab: without a browser, the pictures of pages stay as they are" >&2
	@scripts/figures.sh

site: build
	@scripts/setup.sh site
	@scripts/site.sh

wheel-test:
	@scripts/setup.sh build python
	@scripts/wheel_test.sh $(PYTHON)

format:
	@scripts/setup.sh lint
	@tests/tidy/clang_format.sh --fix

clean:
	@rm -rf build
