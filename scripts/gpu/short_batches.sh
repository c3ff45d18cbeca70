#!/bin/bash
# Backward plans of one rank on batches of short sequences, two builds by turns on one GPU:
# scripts/gpu/short_batches.sh OUT BEFORE/cplab NOW/cplab [ROUNDS]. Median milliseconds of an iteration and of its
# phases go to OUT/short-batches.json, one entry a batch.
set -euo pipefail
out=$1 rounds=${4:-3}
declare -A programs=([before]=$2 [now]=$3)
mkdir -p "$out/runs"
for shape in 64x256x16x128 32x512x16x128 16x1024x16x128 64x256x32x64 32x512x32x64 16x1024x32x64; do
  IFS=x read -r batch sequence heads size <<<"$shape"
  for mask in full causal; do
    for round in $(seq "$rounds"); do
      for build in before now; do
        timeout 60 "${programs[$build]}" run ring-h200 --quiet --set parallel.ranks=1 --set "problem.batch=$batch" \
          --set "problem.sequence=$sequence" --set "problem.heads=$heads" --set "problem.head_size=$size" \
          --set "problem.mask=$mask" --operations --json "$out/runs/$shape-$mask-$build-$round.json" >/dev/null
      done
    done
  done
done
python3 "$(dirname "$0")/short_batches.py" "$out"
