#!/usr/bin/env bash
# Configures and builds one preset: scripts/build.sh [release|demo|alone|dev|ci] [ninja arguments, such as a target]
# Of the configure step only the lines that say what was found and left out are shown, unless it fails; of the build how
# far it is: Ninja's own live line on a terminal, else a line for every tenth of the steps, and every 20 seconds at least.
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

# Reads Ninja's lines, "[steps done/steps in all] what". Nothing to build is nothing to say.
tell_progress() {
  local line told=-1 last=$SECONDS began=$SECONDS
  while IFS= read -r line; do
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\ (.*)$ ]] || continue
    local done_steps=${BASH_REMATCH[1]} steps=${BASH_REMATCH[2]} what=${BASH_REMATCH[3]}
    local tenth=$((10 * done_steps / steps))
    [ $tenth -gt $told ] || [ $((SECONDS - last)) -ge 20 ] || continue
    told=$tenth last=$SECONDS
    echo "cplab: build step $done_steps of $steps after $((SECONDS - began)) s: $what" >&2
  done
}

if [ -t 1 ]; then
  cmake --build --preset "$preset" -- "$@"
else
  log=build/build-$preset.log
  # No filter that buffers (grep, sed) may stand in this pipe: lines would come late. The user's NINJA_STATUS is
  # overridden, because tell_progress parses the lines.
  if ! NINJA_STATUS='[%f/%t] ' cmake --build --preset "$preset" -- "$@" 2>&1 | tee "$log" | tell_progress; then
    sed -n '/^FAILED: /,$p' "$log" | grep -a . >&2 || cat "$log" >&2
    exit 1
  fi
fi
