#!/usr/bin/env bash
# The short tests of code that walks memory by hand or reads a user's files, under the address and
# undefined-behaviour sanitizers (preset dev): scripts/sanitizers.sh build|test
# `make test SANITIZERS=1` and .ci/run call both as CTest cases.
set -euo pipefail
cd "$(dirname "$0")/.."

folders=(algorithms properties kernels exec cli fuzz)

case "${1:-}" in
  build)
    targets=(cplab)
    for folder in "${folders[@]}"; do
      if [ -f "tests/$folder/CMakeLists.txt" ]; then targets+=("tests/$folder/all"); fi
    done
    scripts/build.sh dev "${targets[@]}"
    ;;
  test)
    IFS='|'
    ctest --preset dev --label-regex "^(${folders[*]})\$" --exclude-regex '^long|^cli[.]off_grid'
    ;;
  *)
    echo "usage: scripts/sanitizers.sh build|test" >&2
    exit 2
    ;;
esac
