# The one entry to this repository: every target works from a bare Debian 12 and a clone.
#   make demo       install what is missing, build, show what cplab says about an 8-GPU node
#   make test       the same, then all tests; SANITIZERS=1 adds the sanitizer run (as .ci/run does)
#   make build      build/release/cplab alone
#   make gpu        the programs that check, time and measure on a GPU too (needs nvcc); scripts/gpu/ runs them
#   make grid       every three and every four choices of every algorithm verified together, and 110000 mutants
#   make fuzz       hostile input for the readers of files and messages, a minute each (installs clang when missing)
#   make figures    draw the figures of README and docs anew (installs matplotlib when missing)
#   make format     clang-format 14 over all C++ and CUDA files
#   make clean      remove build/
.NOTPARALLEL:
.PHONY: demo test build gpu grid fuzz figures plots format clean setup

SANITIZERS ?= 0
ifeq ($(SANITIZERS),1)
PRESET := ci
else
PRESET := release
endif

demo: build
	@build/release/cplab demo

test:
	@scripts/setup.sh build test
	@scripts/build.sh $(PRESET)
	@ctest --preset $(PRESET)

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
	@scripts/figures.sh

format:
	@scripts/setup.sh lint
	@tests/tidy/clang_format.sh --fix

clean:
	@rm -rf build
