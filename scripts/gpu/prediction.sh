#!/usr/bin/env bash
# The prediction of one run of the causal zigzag ring on H200s that several.sh or single.sh brought back:
#   scripts/gpu/prediction.sh RUN.json HARDWARE OUT.json     RUN.json: run-TOKENS-PRANKS-LINK.json
# HARDWARE: a hardware file as a scenario names it. OUT.json is simulate's result, with its operations. compare.sh makes
# the tables of these, plots/timeline.py the README's picture: one prediction for both. CPLAB names the program.
set -euo pipefail
cd "$(dirname "$0")/../.."
run=$1 hardware=$2 out=$3
IFS=- read -r _ tokens ranks link <<<"$(basename "$run" .json)"
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
"${CPLAB:-build/release/cplab}" simulate ring-h200 --quiet --operations --json "$out" \
  --set hardware.file="$hardware" --set simulate.iteration=15 --set problem.sequence="$tokens" \
  --set parallel.ranks="${ranks#P}" --set schedule.transport="$link" "${old[@]}" >/dev/null
