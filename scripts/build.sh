#!/usr/bin/env bash
# Configures and builds one preset: scripts/build.sh [release|dev|ci] [ninja arguments]
# Of the configure step only the lines that say what was found and left out are shown, unless it fails.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:-release}
shift || true

mkdir -p build
log=build/configure-$preset.log
if ! cmake --preset "$preset" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
sed -n 's/^-- cplab: /cplab: /p' "$log" >&2

# Ninja's own lines only when something goes wrong or somebody watches.
if [ -t 1 ]; then
  cmake --build --preset "$preset" -- "$@"
else
  log=build/build-$preset.log
  if ! cmake --build --preset "$preset" -- "$@" >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
  fi
fi
