#!/bin/bash
# Predictions beside the runs that several.sh or single.sh brought back: scripts/gpu/compare.sh RESULTS_DIR
# [CPLAB [HARDWARE]]. Simulates each run's scenario on the hardware file (default: that of ring-h200), compares, and
# prints the table in markdown. What it writes beside that goes into a folder of its own, which it names.
set -euo pipefail
results=$1
cplab=${2:-build/release/cplab}
hardware=${3:-hardware/h200x4-measured.toml}
work=$(mktemp -d)
echo "compare.sh: predictions and comparisons are in $work" >&2
for run in "$results"/run-*.json; do
  name=$(basename "$run" .json)
  name=${name#run-}
  IFS=- read -r tokens ranks transport <<<"$name"
  ranks=${ranks#P}
  count=$((${tokens%K} * 1024))
  mkdir -p "$work/$transport"
  "$cplab" simulate ring-h200 --quiet --operations --json "$work/predicted-$name.json" \
    --set hardware.file="$hardware" --set problem.sequence="$tokens" --set parallel.ranks="$ranks" \
    --set schedule.transport="$transport" >/dev/null
  "$cplab" compare "$work/predicted-$name.json" "$run" --quiet \
    --json "$work/$transport/compare-S$count-P$ranks.json" >"$work/compare-$name.txt"
done
for transport in copy nccl; do
  [ -d "$work/$transport" ] || continue
  peers=()
  for peer in "$results"/peer-P*.json; do
    if [ -f "$peer" ]; then peers+=("$peer"); fi
  done
  echo "transport $transport"
  echo
  python3 plots/compare.py "$work/$transport" ${peers:+--peers "${peers[@]}"}
  echo
done
