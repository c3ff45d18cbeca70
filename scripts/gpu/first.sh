#!/bin/bash
# Kernels and the executor on one GPU, quickly: what to run first after a change in kernels/cuda or exec/gpu_*.
# scripts/gpu/first.sh OUT_DIR
set -uo pipefail
out=$1
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091
source scripts/gpu/environment.sh
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm --format=csv,noheader
echo "== tiles"
timeout 150 tiles --cases 300 >"$out/tiles.txt" 2>&1
echo "rc $?"
tail -40 "$out/tiles.txt"
echo "== bench"
timeout 100 tiles --bench >"$out/bench.txt" 2>&1
echo "rc $?"
tail -40 "$out/bench.txt"
echo "== verify"
for ranks in 1 2 4 8; do
  timeout 60 cplab verify ring-small --device gpu --ranks-per-gpu 8 --set schedule.transport=copy \
    --set parallel.ranks=$ranks --quiet 2>&1 | tail -8
done
echo "== grid"
timeout 200 grid --gpu 8 --strength 2 >"$out/grid.txt" 2>&1
echo "rc $?"
tail -15 "$out/grid.txt"
