#!/bin/bash
# Predictions beside the runs that scripts/gpu/several.sh brought back: scripts/gpu/compare.sh RESULTS_DIR
# [CPLAB]. Simulates each run's scenario, compares, and prints the table in markdown.
set -euo pipefail
results=$1
cplab=${2:-build/release/cplab}
for run in "$results"/run-*.json; do
  name=$(basename "$run" .json)
  name=${name#run-}
  IFS=- read -r tokens ranks transport <<<"$name"
  ranks=${ranks#P}
  count=$((${tokens%K} * 1024))
  "$cplab" simulate ring-h200 --quiet --operations --json "$results/predicted-$name.json" \
    --set problem.sequence="$tokens" --set parallel.ranks="$ranks" --set schedule.transport="$transport" >/dev/null
  mkdir -p "$results/compare-$transport"
  "$cplab" compare "$results/predicted-$name.json" "$run" --quiet \
    --json "$results/compare-$transport/compare-S$count-P$ranks.json" >"$results/compare-$name.txt"
done
for transport in copy nccl; do
  peers=()
  for peer in "$results"/peer-P*.json; do
    if [ -f "$peer" ]; then peers+=("$peer"); fi
  done
  echo "transport $transport"
  echo
  python3 plots/compare.py "$results/compare-$transport" ${peers:+--peers "${peers[@]}"}
  echo
done
