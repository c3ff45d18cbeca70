#!/usr/bin/env bash
# The short tests of code that takes input, or walks memory by hand, under the address and undefined-behaviour
# sanitizers: scripts/sanitizers.sh build|test [all]
# Without `all` as CI does (preset input): the libraries that see what comes from outside (plan, derive, check, calls,
# kernels, report, exec, cli) are watched while the tests of plans, kernels, execution, reports, corpora and readers run.
# `all` (preset dev; make nightly): every library, and the tests of algorithms and of every command as well.
# `make test SANITIZERS=1` and .ci/run call both steps as CTest tests.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=input
folders=(properties kernels exec fuzz report)
labels=("${folders[@]}" input)
if [ "${2:-}" = all ]; then
  preset=dev
  folders+=(algorithms cli)
  labels=("${folders[@]}")
fi

case "${1:-}" in
  build)
    targets=(tests/fuzz/all tests_cli)
    for folder in "${folders[@]}"; do
      if [ "$folder" != fuzz ]; then targets+=("tests_$folder"); fi
    done
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
