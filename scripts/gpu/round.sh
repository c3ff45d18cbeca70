#!/bin/bash
# Everything of attention and linear attention that two GPUs of one machine can show in ten minutes: one beside the
# peers, the other checked and timed alone, then both together. FA4_DIR: scripts/gpu/pack_fa4.sh.
# scripts/gpu/round.sh OUT_DIR one|other|both   Leaves what it measured in OUT_DIR; side_by_side.sh gives each its GPUs.
set -uo pipefail
out=$(mkdir -p "$1" && realpath "$1")
part=$2
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
mkdir -p "$out"/{peers,checked,checkers,timed,runs,verify,torch,rows,family}

if [ "$part" = one ]; then
  CANDIDATES=cudnn,best,deterministic,flash_packed PEERS_SECONDS=300 scripts/gpu/kernels.sh "$out/peers" peers
fi

verified() {  # NAME OPTIONS...
  local name=$1
  shift
  timeout 60 cplab verify ring-small --device gpu --ranks-per-gpu 8 --quiet --set schedule.transport=copy \
    --set problem.dtype=bf16 --set problem.head_size=128 --set problem.value_size=128 "$@" >"$out/$name.txt" 2>&1
  echo "$name rc $?: $(tail -1 "$out/$name.txt")"
}
if [ "$part" = other ]; then
  CASES=200 CHECK_SECONDS=110 scripts/gpu/kernels.sh "$out/checked" check &
  scripts/gpu/linear.sh "$out/checked" check &
  for algorithm in ring usp hierarchical; do
    (
      timeout 110 grid --gpu 8 --strength 2 --algorithm $algorithm >"$out/grid-$algorithm.txt" 2>&1
      echo "grid $algorithm rc $?: $(tail -1 "$out/grid-$algorithm.txt")"
    ) &
  done
  wait
  for ranks in 2 4 8; do
    verified "batch-$ranks" --set problem.batch=3 --set parallel.ranks=$ranks
    verified "batch-deterministic-$ranks" --deterministic --set problem.batch=3 --set parallel.ranks=$ranks
  done
  scripts/gpu/kernels.sh "$out/checkers" checkers
  scripts/gpu/kernels.sh "$out/timed" deterministic,segments,heights
  timeout 90 measure --only linear --gpus 1 >"$out/linear.json" 2>"$out/linear.txt"
  echo "measure linear rc $?"
  timeout 200 measure --only kernels --gpus 1 --linear-budget 1 >"$out/kernels.json" 2>"$out/kernels.txt"
  echo "measure kernels rc $?"
fi

if [ "$part" = both ]; then
  scripts/gpu/several.sh "$out/runs" runs
  scripts/gpu/row_lists.sh "$out/rows"
  # The published chain, the chain of states and the tree with the same kernels: four emulated ranks a GPU.
  for algorithm in fuse_parallel ring_decoupled blelloch; do
    options=(--set schedule.inter=apart --set schedule.overlap=false --set schedule.chunk=256)
    if [ $algorithm = fuse_parallel ]; then options=(); fi
    for ranks in $((4 * gpus)) "$gpus"; do
      timeout 60 cplab run lasp --quiet --ranks-per-gpu $((ranks / gpus)) --operations "${options[@]}" \
        --set "parallel.algorithm=lasp_$algorithm" --set parallel.ranks="$ranks" --set problem.sequence=$((ranks * 4))K \
        --set 'schedule.transport="copy"' --json "$out/family/run-$algorithm-P$ranks.json" >"$out/family/said.txt" 2>&1
      echo "$algorithm P=$ranks rc $?: $(sed -n 2p "$out/family/said.txt")"
    done
  done
  scripts/gpu/several.sh "$out/verify" verify
  timeout 120 scripts/gpu/off_grid.sh "$out/off-grid" --seed 20261122
  scripts/gpu/several.sh "$out/torch" peers
fi
echo "$part: end ($SECONDS s)"
