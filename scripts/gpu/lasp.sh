#!/bin/bash
# The algorithms of linear attention on the GPUs of one machine: the covering grid of each, head sizes that take the
# fast kernels on 1 to 8 ranks under jitter, memory checkers on small shapes; with two GPUs also runs beside their
# prediction. Kernels alone: linear.sh.
# scripts/gpu/lasp.sh OUT_DIR [PARTS]   PARTS: any of grid,verify,checkers,runs; all by default.
# Leaves one archive in OUT_DIR.
set -uo pipefail
out=$1
parts=${2:-grid,verify,checkers,runs}
wants() { [[ ",$parts," == *",$1,"* ]]; }
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
gpus=$(nvidia-smi -L | wc -l)
algorithms="naive cache fuse fuse_parallel blelloch kogge_stone ring_decoupled all_gather zeco"
hardware=${HARDWARE:-h200x4-hopper.toml}
step() { echo "== $1 ($SECONDS s)"; }
last() { tail -1 "$1" | cut -c1-200; }
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.limit --format=csv >"$results/nvidia-smi.txt"

if wants grid; then
  step "covering grid"
  for algorithm in $algorithms; do
    for transport in copy nccl; do
      ranks_per_gpu=1 most=$gpus
      if [ "$transport" = copy ]; then ranks_per_gpu=$((8 / gpus)) most=8; fi
      if [ "$most" = 1 ]; then continue; fi
      timeout 30 grid --gpu "$ranks_per_gpu" --most-ranks "$most" --transport $transport \
        --algorithm "lasp_$algorithm" --scale 16 --orders 1 >"$results/grid-$algorithm-$transport.txt" 2>&1
      echo "$algorithm, $transport, up to $most ranks: rc $?: $(last "$results/grid-$algorithm-$transport.txt")"
    done
  done
fi

# Every algorithm with the kernels that are fast, both placements; the operations' variants are kept.
if wants verify; then
  step "1 to 8 ranks"
  for algorithm in $algorithms; do
    for ranks in 1 2 3 5 8; do
      for placement in contiguous stream; do
        name=$algorithm-$ranks-$placement
        timeout 60 cplab verify lasp-packed --device gpu --ranks-per-gpu $(((ranks + gpus - 1) / gpus)) --quiet \
          --jitter "$ranks" --set "parallel.algorithm=lasp_$algorithm" --set parallel.ranks="$ranks" \
          --set "parallel.placement=$placement" \
          --set problem.value_size=$((64 + ranks % 2 * 64)) --set 'schedule.transport="copy"' --timeout 30 \
          --json "$results/verify-$name.json" >"$results/verify-$name.txt" 2>&1
        echo "$name: rc $?: $(last "$results/verify-$name.txt")"
      done
    done
  done
fi

if wants checkers; then
  step "memory checkers"
  need compute-sanitizer
  for algorithm in naive fuse blelloch all_gather zeco; do
    for tool in memcheck racecheck; do
      timeout 100 compute-sanitizer --tool $tool --report-api-errors no --error-exitcode 9 "$(command -v cplab)" \
        verify lasp --device gpu --ranks-per-gpu $((2 / gpus)) --allocator separate --quiet --timeout 90 \
        --set "parallel.algorithm=lasp_$algorithm" --set parallel.ranks=2 --set problem.sequence=300 \
        --set problem.heads=2 --set 'schedule.transport="copy"' >"$results/$tool-$algorithm.txt" 2>&1
      echo "$algorithm $tool rc $?: $(grep SUMMARY "$results/$tool-$algorithm.txt" | tail -1)"
    done
  done
fi

if wants runs && [ "$gpus" -gt 1 ]; then
  step "runs beside predictions"
  for algorithm in $algorithms; do
    for transport in copy nccl; do
      for tokens in 8K 128K 1M; do
        name=$algorithm-$transport-$tokens
        options=(--quiet --set "parallel.algorithm=lasp_$algorithm" --set "parallel.ranks=$gpus"
          --set "problem.sequence=$tokens" --set "schedule.transport=\"$transport\""
          --set "hardware.file=\"hardware/$hardware\"")
        timeout 60 cplab run lasp "${options[@]}" --operations --json "$results/run-$name.json" \
          >"$results/run.txt" 2>&1
        echo "run $name rc $?: $(sed -n 2,2p "$results/run.txt")"
        timeout 60 cplab simulate lasp "${options[@]}" --operations --json "$results/simulate-$name.json" \
          >"$results/simulate.txt" 2>&1
        echo "  simulate rc $?: $(sed -n 2,2p "$results/simulate.txt")"
      done
    done
  done
fi
rm -f "$results/last.txt" "$results/run.txt" "$results/simulate.txt"
tar cJf "$out/lasp-$gpus.tar.xz" -C "$results" .
