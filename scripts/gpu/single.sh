#!/bin/bash
# What one GPU can show of the executor: order of execution, faults, memory checkers, the machine's tables.
# scripts/gpu/single.sh OUT_DIR   leaves one archive there.
set -uo pipefail
out=$1
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091
source scripts/gpu/environment.sh
step() { echo "== $1 ($SECONDS s)"; }
several=(--device gpu --ranks-per-gpu 8 --set schedule.transport=copy --quiet)

step one-rank
for tokens in 4K 16K 32K 64K; do
  cplab run ring-h200 --quiet --operations --json "$results/run-$tokens-P1-copy.json" \
    --set problem.sequence=$tokens --set parallel.ranks=1 2>&1 | sed -n '1,2p'
done

step faults
for fault in identity ring-slot-reuse stale-kv drop-wait upper-half-overwrite skip-tile double-tile; do
  timeout 60 cplab verify faults/ring "${several[@]}" --inject $fault --jitter 3 --timeout 10 >"$results/fault.txt" 2>&1
  rc=$?
  numeric=$(grep -c '^numerics' "$results/fault.txt")
  echo "$fault rc $rc, findings of kind numerics: $numeric"
done

step failures
for signal in KILL STOP; do
  (sleep 9 && pkill -$signal -f "cplab run ring-h200 .*iterations 100000" -n) &
  failing "a rank gets SIG$signal, processes on one GPU" timeout 60 scripts/ranks.sh 4 cplab run ring-h200 --quiet \
    --ranks-per-gpu 4 --iterations 100000 --timeout 18 --set problem.sequence=16K --set parallel.ranks=4
  wait
done

step checkers
for number in 0 1 2 3 4 5 8 9; do
  timeout 200 compute-sanitizer --tool racecheck --error-exitcode 9 tiles --threads 1 --case $number \
    >"$results/racecheck-$number.txt" 2>&1 &
done
for tool in memcheck initcheck; do
  timeout 100 compute-sanitizer --tool $tool --error-exitcode 9 cplab verify ring-small "${several[@]}" \
    --allocator separate --timeout 90 >"$results/$tool.txt" 2>&1
  echo "$tool rc $?: $(grep 'ERROR SUMMARY' "$results/$tool.txt")"
done
# The ring sends halves of dK, dV that nobody has written and nobody reads: copies of such memory are by design,
# reads by a kernel would be a bug.
echo "initcheck: reads by kernels: $(grep -c 'Uninitialized __global__' "$results/initcheck.txt"), by copies:" \
  "$(grep -cE 'Host API uninitialized' "$results/initcheck.txt")"
wait
for number in 0 1 2 3 4 5 8 9; do
  echo "racecheck, case $number: $(grep -E 'RACECHECK SUMMARY|ERROR SUMMARY' "$results/racecheck-$number.txt")," \
    "$(grep -c checks, "$results/racecheck-$number.txt") variants"
done

step orders
timeout 150 grid --gpu 8 --strength 2 --orders 20 >"$results/orders.txt" 2>&1
echo "rc $?: $(tail -1 "$results/orders.txt")"

step measure
timeout 100 measure >"$results/measure.json" 2>"$results/measure.txt"
echo "rc $?: $(tail -1 "$results/measure.txt")"
tar czf "$out/results.tar.gz" -C "$results" .
step end
