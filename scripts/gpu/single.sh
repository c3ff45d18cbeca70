#!/bin/bash
# What one GPU can show of the executor: order of execution, faults, memory checkers, the machine's tables.
# scripts/gpu/single.sh OUT_DIR [PARTS]   PARTS: any of runs,collectives,faults,failures,checkers,orders,measure;
# all by default. Leaves one archive in OUT_DIR.
set -uo pipefail
out=$1
parts=${2:-runs,collectives,faults,failures,checkers,orders,measure}
wants() { [[ ",$parts," == *",$1,"* ]]; }
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
if wants checkers; then need compute-sanitizer; fi
step() { echo "== $1 ($SECONDS s)"; }
several=(--device gpu --ranks-per-gpu 8 --set schedule.transport=copy --quiet)

if wants runs; then
step runs
for tokens in 4K 16K 32K 64K; do
  cplab run ring-h200 --quiet --operations --json "$results/run-$tokens-P1-copy.json" \
    --set problem.sequence=$tokens --set parallel.ranks=1 2>&1 | sed -n '1,2p'
done
fi

if wants collectives; then
step collectives
timeout 300 collectives >"$results/collectives.txt" 2>&1
echo "collectives rc $?: $(tail -1 "$results/collectives.txt")"
for plan in build/pack/plans/4/*-copy.json; do
  timeout 60 cplab verify --plan "$plan" --device gpu --ranks-per-gpu 4 --quiet --timeout 30 --jitter 3 \
    >"$results/last.txt" 2>&1
  echo "$(basename "$plan"), 4 ranks on this GPU: rc $?: $(tail -1 "$results/last.txt")"
done
fi

if wants faults; then
step faults
timeout 560 python3 scripts/gpu/faults.py "$(command -v cplab)" --seeds 2 -- --ranks-per-gpu 8 \
  --set schedule.transport=copy | tee "$results/faults.txt"
# How often a missing wait shows by itself.
for fault in ring-slot-reuse drop-wait gather-missing-wait gather-reuse; do
  timeout 300 python3 scripts/gpu/faults.py "$(command -v cplab)" --seeds 8 --only $fault -- --ranks-per-gpu 8 \
    --set schedule.transport=copy | tee -a "$results/faults.txt"
done
fi

if wants failures; then
step failures
for signal in KILL STOP; do
  (sleep 9 && pkill -$signal -f "cplab run ring-h200 .*iterations 100000" -n) &
  failing "a rank gets SIG$signal, processes on one GPU" timeout 60 scripts/ranks.sh 4 cplab run ring-h200 --quiet \
    --ranks-per-gpu 4 --iterations 100000 --timeout 18 --set problem.sequence=16K --set parallel.ranks=4
  wait
done
fi

if wants checkers; then
step checkers
for number in 0 1 2 3 4 5 8 9; do
  timeout 200 compute-sanitizer --tool racecheck --error-exitcode 9 tiles --threads 1 --case $number \
    >"$results/racecheck-$number.txt" 2>&1 &
done
for tool in memcheck initcheck; do
  timeout 100 compute-sanitizer --tool $tool --print-limit 100000 --error-exitcode 9 cplab verify ring-small "${several[@]}" \
    --allocator separate --timeout 90 >"$results/$tool.txt" 2>&1
  echo "$tool rc $?: $(grep 'ERROR SUMMARY' "$results/$tool.txt")"
done
# The ring sends halves of dK, dV that nobody has written and nobody reads: copies of such memory are by design,
# reads by a kernel would be a bug.
echo "initcheck: reads by kernels: $(grep -c 'Uninitialized __global__' "$results/initcheck.txt"), by copies:" \
  "$(grep -c 'Uninitialized access .* cudaMemcpy source' "$results/initcheck.txt")"
wait
for number in 0 1 2 3 4 5 8 9; do
  echo "racecheck, case $number: $(grep -E 'RACECHECK SUMMARY|ERROR SUMMARY' "$results/racecheck-$number.txt")," \
    "$(grep -c checks, "$results/racecheck-$number.txt") variants"
done
fi

if wants orders; then
step orders
timeout 150 grid --gpu 8 --strength 2 --orders 20 >"$results/orders.txt" 2>&1
echo "rc $?: $(tail -1 "$results/orders.txt")"
fi

if wants measure; then
step measure
timeout 250 cplab calibrate --out "$results/hardware.toml" --budget 200 >"$results/measure.txt" 2>&1
echo "rc $?: $(tail -1 "$results/measure.txt")"
fi
tar czf "$out/results.tar.gz" -C "$results" .
step end
