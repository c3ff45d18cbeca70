#!/usr/bin/env bash
# Runs the tests of a preset that is built: scripts/test.sh [release|ci|nightly]. Before CTest's summary, which is the
# end, stand the longest tests and steps of the build.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:-release}
folders=(build/release)
case "$preset" in
  ci) folders+=(build/plans) ;;
  nightly) folders+=(build/dev) ;;
esac
ctest --preset "$preset" | scripts/longest.py "${folders[@]}"
