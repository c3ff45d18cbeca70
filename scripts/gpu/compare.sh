#!/bin/bash
# Predictions beside the runs that several.sh or single.sh brought back, as a markdown table:
#   scripts/gpu/compare.sh RESULTS_DIR HARDWARE LINK [options of plots/compare.py]
# HARDWARE: a hardware file as a scenario names it; LINK: copy, nccl, or copy+nccl for one table of both. CPLAB names
# the program. Simulates each run's scenario, compares, prints; peers' results in RESULTS_DIR join.
set -euo pipefail
results=$(realpath "$1")
hardware=$2
links=$3
shift 3
cplab=${CPLAB:-build/release/cplab}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$(dirname "$0")/../.."
for link in ${links/+/ }; do
  mkdir -p "$work/$link"
  for run in "$results"/run-*-"$link".json; do
    name=$(basename "$run" .json)
    IFS=- read -r _ tokens ranks _ <<<"$name"
    old=() # what plans were like before these options
    if ! grep -q '"own_kv"' "$run"; then
      old=(--set schedule.own_kv=receive --set schedule.dkv_tile_heads=0)
      if [ "$ranks" = P1 ]; then old+=(--set schedule.accumulator=nominal); fi
    fi
    if ! grep -q '"head_start_us"' "$run"; then
      old+=(--set schedule.head_start_us=0 --set schedule.channels=nccl)
    fi
    if ! grep -q '"gradient_sum"' "$run"; then
      old+=(--set schedule.gradient_sum=apart --set schedule.gradient_wire_dtype=fp32 --set schedule.merge=incremental)
    fi
    row_dot=$(sed -n 's/.*"row_dot": "\([a-z_]*\)".*/\1/p' "$run" | head -n 1)
    old+=(--set schedule.row_dot="${row_dot:-apart}")
    # The median of `run` with its own 5 and 20 iterations (128K: 2 and 11, long after the clock fell).
    "$cplab" simulate ring-h200 --quiet --operations --json "$work/predicted.json" --set hardware.file="$hardware" \
      --set simulate.iteration=15 \
      --set problem.sequence="$tokens" --set parallel.ranks="${ranks#P}" --set schedule.transport="$link" "${old[@]}" >/dev/null
    "$cplab" compare "$work/predicted.json" "$run" --quiet >/dev/null \
      --json "$work/$link/compare-S$((${tokens%K} * 1024))-$ranks.json"
  done
done
peers=()
for peer in "$results"/peer-P*.json; do
  if [ -f "$peer" ]; then peers+=("$peer"); fi
done
beside=()
if [[ $links == *+* ]]; then beside=(--beside "$work/${links#*+}"); fi
python3 plots/compare.py "$work/${links%+*}" "${beside[@]}" ${peers:+--peers "${peers[@]}"} "$@"
