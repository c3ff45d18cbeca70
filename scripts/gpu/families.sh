#!/bin/bash
# The softmax algorithms on the GPUs of one machine: the covering grid of each over every transport, max_logit,
# collectives, memory checkers on small shapes; with two GPUs and more also runs beside their prediction, and
# CUDA graphs.
# scripts/gpu/families.sh OUT_DIR [PARTS]   PARTS: any of grid,collectives,max_logit,checkers,runs; all by default.
# Leaves one archive in OUT_DIR.
set -uo pipefail
out=$1
parts=${2:-grid,collectives,max_logit,checkers,runs}
wants() { [[ ",$parts," == *",$1,"* ]]; }
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
algorithms="ring all_gather head_strided all_to_all hierarchical usp"
hardware=${HARDWARE:-h200x4.toml}
step() { echo "== $1 ($SECONDS s)"; }
last() { tail -1 "$1" | cut -c1-200; }
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.limit --format=csv >"$results/nvidia-smi.txt"

if wants grid; then
  step "covering grid"
  for algorithm in $algorithms; do
    for transport in copy nccl; do
      ranks_per_gpu=1 most=$gpus
      if [ "$transport" = copy ]; then ranks_per_gpu=$((8 / gpus)) most=8; fi
      timeout 200 grid --gpu "$ranks_per_gpu" --most-ranks "$most" --transport $transport --algorithm "$algorithm" \
        --scale 4 --orders 2 >"$results/grid-$algorithm-$transport.txt" 2>&1
      echo "$algorithm, $transport, up to $most ranks: rc $?: $(last "$results/grid-$algorithm-$transport.txt")"
    done
  done
fi

if wants collectives; then
  step collectives
  timeout 300 collectives >"$results/collectives.txt" 2>&1
  echo "collectives rc $?: $(last "$results/collectives.txt")"
  for plan in build/pack/plans/"$gpus"/*.json; do
    timeout 60 cplab verify --plan "$plan" --device gpu --quiet --timeout 30 --jitter 3 >"$results/last.txt" 2>&1
    echo "$(basename "$plan"): rc $?: $(last "$results/last.txt")"
  done
fi

if wants max_logit; then
  step max_logit
  for size in 64 128; do
    for merge in incremental fused; do
      timeout 60 cplab verify faults/max-logit --device gpu --ranks-per-gpu $((4 / gpus)) --quiet --jitter 1 \
        --set problem.dtype='"bf16"' --set problem.head_size=$size --set schedule.transport='"copy"' \
        --set schedule.merge="\"$merge\"" >"$results/last.txt" 2>&1
      echo "max_logit D=$size $merge: rc $?: $(last "$results/last.txt")"
    done
  done
  timeout 200 tiles >"$results/tiles.txt" 2>&1
  echo "tiles rc $?: $(last "$results/tiles.txt")"
fi

if wants checkers; then
  step "memory checkers"
  need compute-sanitizer
  for algorithm in $algorithms; do
    for tool in memcheck racecheck; do
      timeout 100 compute-sanitizer --tool $tool --report-api-errors no --error-exitcode 9 "$(command -v cplab)" \
        verify ring-small --device gpu --ranks-per-gpu $((2 / gpus)) --allocator separate --quiet --timeout 90 \
        --set parallel.algorithm="$algorithm" --set parallel.ranks=2 --set problem.head_size=64 \
        --set problem.value_size=64 --set schedule.transport='"copy"' --set problem.max_logit=true \
        >"$results/$tool-$algorithm.txt" 2>&1
      echo "$algorithm $tool rc $?: $(grep SUMMARY "$results/$tool-$algorithm.txt" | tail -1)"
    done
  done
fi

if wants runs && [ "$gpus" -gt 1 ]; then
  step "runs beside predictions"
  for algorithm in $algorithms; do
    for transport in copy nccl; do
      for tokens in 16K 64K; do
        name=$algorithm-$transport-$tokens
        options=(--quiet --set "parallel.algorithm=$algorithm" --set "parallel.ranks=$gpus" --set problem.heads=32
          --set problem.kv_heads=8 --set "problem.sequence=$tokens" --set "schedule.transport=\"$transport\""
          --set "hardware.file=\"hardware/$hardware\"")
        if [ "$algorithm" = head_strided ]; then options+=(--set schedule.head_stride=2); fi
        timeout 60 cplab run ring-h200 "${options[@]}" --operations --json "$results/run-$name.json" \
          >"$results/run.txt" 2>&1
        echo "run $name rc $?: $(sed -n 2,2p "$results/run.txt")"
        timeout 60 cplab simulate ring-h200 "${options[@]}" --operations --json "$results/simulate-$name.json" \
          >"$results/simulate.txt" 2>&1
        echo "  simulate rc $?: $(sed -n 2,2p "$results/simulate.txt")"
      done
    done
    timeout 60 cplab run ring-h200 "${options[@]}" --set problem.sequence=8K --set simulate.cuda_graph=true \
      --json "$results/graph-$algorithm.json" >"$results/run.txt" 2>&1
    echo "graph $algorithm rc $?: $(sed -n 2,2p "$results/run.txt")"
  done
fi
rm -f "$results/last.txt" "$results/run.txt" "$results/simulate.txt"
tar cJf "$out/families-$gpus.tar.xz" -C "$results" .
