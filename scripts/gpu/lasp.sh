#!/bin/bash
# The algorithms of linear attention on the GPUs of one machine: the covering grid of each, head sizes that take the
# fast kernels on 1 to 8 ranks under jitter, memory checkers on small shapes; with two GPUs also timed
# runs. Kernels alone: linear.sh.
# scripts/gpu/lasp.sh OUT_DIR [PARTS]   PARTS: any of grid,verify,checkers,runs; all by default.
# Leaves one archive in OUT_DIR.
set -uo pipefail
out=$1
parts=${2:-grid,verify,checkers,runs}
wants() { [[ ",$parts," == *",$1,"* ]]; }
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
algorithms="naive cache fuse fuse_parallel blelloch kogge_stone ring_decoupled all_gather zeco"
# Runs a function beside others, so many at a time: correctness only, nothing is timed.
beside() {
  while [ "$(jobs -rp | wc -l)" -ge "${BESIDE:-10}" ]; do wait -n; done
  "$@" &
}
step() { echo "== $1 ($SECONDS s)"; }
last() { tail -1 "$1" | cut -c1-200; }
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.limit --format=csv >"$results/nvidia-smi.txt"

grid_of() {  # ALGORITHM TRANSPORT
  local ranks_per_gpu=1 most=$gpus
  if [ "$2" = copy ]; then ranks_per_gpu=$((8 / gpus)) most=8; fi
  timeout 100 grid --gpu "$ranks_per_gpu" --most-ranks "$most" --transport "$2" --algorithm "lasp_$1" --scale 8 \
    --orders 1 >"$results/grid-$1-$2.txt" 2>&1
  echo "$1, $2, up to $most ranks: rc $?: $(last "$results/grid-$1-$2.txt")"
}
if wants grid; then
  step "covering grid"
  for algorithm in $algorithms; do
    beside grid_of "$algorithm" copy
    if [ "$gpus" -gt 1 ]; then beside grid_of "$algorithm" nccl; fi
  done
  wait
fi

# Every algorithm with the kernels that are fast, both placements; the operations' variants are kept.
verify_of() {  # ALGORITHM RANKS PLACEMENT
  local name=$1-$2-$3
  timeout 60 cplab verify lasp-packed --device gpu --ranks-per-gpu $((($2 + gpus - 1) / gpus)) --quiet \
    --jitter "$2" --set "parallel.algorithm=lasp_$1" --set parallel.ranks="$2" --set "parallel.placement=$3" \
    --set problem.value_size=$((64 + $2 % 2 * 64)) --set 'schedule.transport="copy"' --timeout 30 \
    --json "$results/verify-$name.json" >"$results/verify-$name.txt" 2>&1
  echo "$name: rc $?: $(last "$results/verify-$name.txt")"
}
if wants verify; then
  step "1 to 8 ranks"
  for algorithm in $algorithms; do
    for ranks in 1 2 3 5 8; do
      for placement in contiguous stream; do beside verify_of "$algorithm" "$ranks" "$placement"; done
    done
  done
  wait
fi

checked_by() {  # TOOL ALGORITHM
  timeout 150 compute-sanitizer --tool "$1" --report-api-errors no --error-exitcode 9 "$(command -v cplab)" \
    verify lasp --device gpu --ranks-per-gpu $((gpus > 1 ? 1 : 2)) --allocator separate --quiet --timeout 140 \
    --set "parallel.algorithm=lasp_$2" --set parallel.ranks=2 --set problem.sequence=300 \
    --set problem.heads=2 --set 'schedule.transport="copy"' >"$results/$1-$2.txt" 2>&1
  echo "$2 $1 rc $?: $(grep SUMMARY "$results/$1-$2.txt" | tail -1)"
}
if wants checkers; then
  step "memory checkers"
  need compute-sanitizer
  for algorithm in naive fuse blelloch all_gather zeco; do
    for tool in memcheck racecheck; do beside checked_by $tool $algorithm; done
  done
  wait
fi

# The two ends of the family at three sizes, the others at one. The predictions need no GPU: scripts/runs_measured.py.
if wants runs && [ "$gpus" -gt 1 ]; then
  step "runs"
  for algorithm in $algorithms; do
    for transport in copy nccl; do
      for tokens in 8K 64K 256K; do
        if [ $tokens != 64K ] && [ "$algorithm" != blelloch ] && [ "$algorithm" != fuse ]; then continue; fi
        name=$algorithm-$transport-$tokens
        timeout 60 cplab run lasp --quiet --set "parallel.algorithm=lasp_$algorithm" --set "parallel.ranks=$gpus" \
          --set "problem.sequence=$tokens" --set "schedule.transport=\"$transport\"" --operations \
          --json "$results/run-$name.json" >"$results/run.txt" 2>&1
        echo "run $name rc $?: $(sed -n 2,2p "$results/run.txt") ($SECONDS s)"
      done
    done
  done
fi
rm -f "$results/run.txt"
tar cJf "$out/lasp-$gpus.tar.xz" -C "$results" .
