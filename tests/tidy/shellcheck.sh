#!/usr/bin/env bash
# Lints every shell script with shellcheck; exit 77, which CTest calls skipped, when it is not there.
set -euo pipefail
cd "$(dirname "$0")/../.."

if ! command -v shellcheck >/dev/null 2>&1; then
  echo "skipped: no shellcheck"
  exit 77
fi
shellcheck -x .ci/run scripts/*.sh scripts/gpu/*.sh tests/tidy/*.sh
