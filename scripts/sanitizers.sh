#!/usr/bin/env bash
# Tests under the address and undefined-behaviour sanitizers: scripts/sanitizers.sh build|test [all]
# Without `all` as CI does (preset plans): the libraries that build, check and write plans (plan, derive, algorithms,
# check, report) are watched while the short tests of algorithms and reports run, and a sweep of plans of every algorithm.
# `all` (preset dev; make nightly): every library, and the tests of every command, kernel and corpus as well.
# `make test SANITIZERS=1` and .ci/run call both steps as CTest tests.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=plans
labels=(algorithms report plans)
targets=(tests_algorithms tests_report check_sweep)
if [ "${2:-}" = all ]; then
  preset=dev
  labels=(properties kernels exec fuzz report algorithms cli)
  targets=(tests/fuzz/all tests_properties tests_kernels tests_exec tests_report tests_algorithms tests_cli)
fi

case "${1:-}" in
  build)
    scripts/build.sh $preset "${targets[@]}"
    ;;
  test)
    IFS='|'
    # Scripts in Python are the same in a release build; what nvcc compiled is not in this one.
    ctest --preset $preset --label-regex "^(${labels[*]})\$" \
      --exclude-regex '^cli[.]off_grid|^kernels[.]|^kernels/(architectures|compiled)$'
    ;;
  *)
    echo "usage: scripts/sanitizers.sh build|test [all]" >&2
    exit 2
    ;;
esac
