#!/bin/bash
# What plans can express, executed on the GPUs of one machine: both phases apart, direction backward, memory
# that is shared more and less, plans of collectives, teams, slabs and edges that wait for a start (build/pack/plans,
# made by scripts/gpu/pack.sh), and the pairwise grid.
# scripts/gpu/house.sh OUT_DIR   leaves one archive in OUT_DIR
set -uo pipefail
out=$1
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
step() { echo "== $1 ($SECONDS s)"; }

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.limit --format=csv >"$results/nvidia-smi.txt"

step "pairwise grid"
for transport in copy nccl; do
  ranks_per_gpu=1
  most=$gpus
  if [ "$gpus" = 1 ] && [ "$transport" = copy ]; then ranks_per_gpu=4 most=4; fi
  timeout 100 grid --gpu "$ranks_per_gpu" --most-ranks "$most" --transport $transport --strength 2 \
    >"$results/grid-$transport.txt" 2>&1
  echo "grid $transport, $ranks_per_gpu ranks a GPU: rc $?: $(tail -1 "$results/grid-$transport.txt")"
done

step "phases and memory"
for between in nothing layers; do
  for direction in forward+backward backward; do
    for reuse in time peak; do
      name=$between-$direction-$reuse
      timeout 60 cplab verify ring-small --device gpu --quiet --set parallel.ranks="$gpus" \
        --set schedule.between="\"$between\"" --set problem.direction="\"$direction\"" \
        --set schedule.reuse="\"$reuse\"" --json "$results/verify-$name.json" >"$results/last.txt" 2>&1
      echo "verify $name rc $?: $(tail -1 "$results/last.txt")"
    done
    timeout 60 cplab run ring-h200 --quiet --set parallel.ranks="$gpus" --set problem.sequence=32K \
      --set schedule.between="\"$between\"" --set problem.direction="\"$direction\"" \
      --json "$results/run-$between-$direction.json" >"$results/last.txt" 2>&1
    echo "run $between $direction rc $?: $(sed -n 2,5p "$results/last.txt" | tr '\n' '|')"
  done
done

step "plans of the builder"
if [ ! -e "build/pack/plans/$gpus/gathered-zigzag.json" ]; then
  echo "$0: no plans for $gpus ranks; scripts/gpu/pack.sh packs them where the target write_plans is built" >&2
  exit 3
fi
for plan in build/pack/plans/"$gpus"/*.json; do
  name=$(basename "$plan")
  timeout 60 cplab verify --plan "$plan" --device gpu --quiet --timeout 30 --json "$results/plan-$name" \
    >"$results/last.txt" 2>&1
  echo "$name rc $?: $(tail -1 "$results/last.txt")"
  timeout 60 cplab verify --plan "$plan" --device gpu --quiet --timeout 30 --jitter 3 >"$results/last.txt" 2>&1
  echo "  with jitter rc $?: $(tail -1 "$results/last.txt")"
done

step "memory checkers"
if command -v compute-sanitizer >/dev/null; then
  plan=$(find build/pack/plans/"$gpus" -name 'gathered-zigzag.json')
  # NCCL asks for kernels that its build lacks, which memcheck would count as an error of the API.
  timeout 120 compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9 "$(command -v cplab)" \
    verify --plan "$plan" --device gpu --allocator separate --quiet --timeout 100 >"$results/memcheck.txt" 2>&1
  echo "memcheck rc $?: $(grep 'ERROR SUMMARY' "$results/memcheck.txt" | tail -1)"
fi
rm -f "$results/last.txt"
tar cJf "$out/house-$gpus.tar.xz" -C "$results" .
