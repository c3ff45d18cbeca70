#!/usr/bin/env bash
# The prediction of one run of the causal zigzag ring on H200s that several.sh or single.sh brought back:
#   scripts/gpu/prediction.sh RUN.json HARDWARE OUT.json     RUN.json: run-TOKENS-PRANKS-LINK.json
# With the run's own schedule. HARDWARE: a hardware file as a scenario names it. OUT.json is simulate's result, with its
# operations. compare.sh makes the tables of these, plots/timeline.py the README's picture: one prediction for both.
# CPLAB names the program.
set -euo pipefail
cd "$(dirname "$0")/../.."
run=$1 hardware=$2 out=$3
IFS=- read -r _ tokens ranks link <<<"$(basename "$run" .json)"
options=$(scripts/campaign.py schedule "$run")
mapfile -t options <<<"$options"
# The median of `run` with its own 5 and 20 iterations (128K: 2 and 11, long after the clock fell).
"${CPLAB:-build/release/cplab}" simulate ring-h200 --quiet --operations --json "$out" \
  --set hardware.file="$hardware" --set simulate.iteration=15 --set problem.sequence="$tokens" \
  --set parallel.ranks="${ranks#P}" "${options[@]}" --set schedule.transport="$link" >/dev/null
