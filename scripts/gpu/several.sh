#!/bin/bash
# Everything that needs several GPUs, on one machine in one run: verification over both links, threads and
# processes, runs of the causal zigzag ring beside PyTorch's context parallelism, and the machine's tables.
# scripts/gpu/several.sh OUT_DIR   leaves one archive there; scripts/gpu/compare.sh reads it.
set -uo pipefail
out=$1
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091
source scripts/gpu/environment.sh
gpus=$(nvidia-smi -L | wc -l)
results=$(mktemp -d)
step() { echo "== $1 ($SECONDS s)"; }

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm --format=csv >"$results/nvidia-smi.txt"
nvidia-smi topo -m >>"$results/nvidia-smi.txt"

step verify
for transport in copy nccl; do
  timeout 80 grid --gpu 1 --most-ranks "$gpus" --transport $transport --strength 2 \
    >"$results/grid-$transport.txt" 2>&1
  echo "grid $transport rc $?: $(tail -1 "$results/grid-$transport.txt")"
  for ranks in 2 "$gpus"; do
    timeout 60 scripts/ranks.sh "$ranks" cplab verify ring-small --device gpu --quiet --timeout 30 \
      --set parallel.ranks="$ranks" --set schedule.transport=$transport \
      --json "$results/verify-processes-$transport-$ranks.json" >"$results/processes.txt" 2>&1
    echo "processes $transport $ranks rc $?: $(tail -1 "$results/processes.txt")"
  done
done

step runs
for tokens in 4K 16K 32K 64K 128K; do
  for ranks in 1 2 4; do
    [ "$ranks" -le "$gpus" ] || continue
    for transport in copy nccl; do
      [ "$ranks" -gt 1 ] || [ $transport = copy ] || continue
      name="$tokens-P$ranks-$transport"
      timeout 60 cplab run ring-h200 --quiet --operations --json "$results/run-$name.json" \
        --set problem.sequence=$tokens --set parallel.ranks=$ranks --set schedule.transport=$transport \
        --timeout 50 >"$results/run.txt" 2>&1
      echo "run $name rc $?: $(sed -n 2p "$results/run.txt")"
    done
    [ "$ranks" -gt 1 ] || continue
    timeout 60 cplab run ring-h200 --quiet --graph --json "$results/graph-$tokens-P$ranks-copy.json" \
      --set problem.sequence=$tokens --set parallel.ranks=$ranks --set schedule.transport=copy \
      --timeout 50 >"$results/run.txt" 2>&1
    echo "graph $tokens-P$ranks rc $?: $(sed -n 2p "$results/run.txt")"
  done
done
tar czf "$out/results.tar.gz" -C "$results" .

step peers
timeout 120 python3 -m torch.distributed.run --nproc-per-node "$gpus" scripts/peer_context_parallel.py \
  --out "$results/peer.json" >"$results/peer.txt" 2>&1
echo "rc $?"
tail -12 "$results/peer.txt"
tar czf "$out/results.tar.gz" -C "$results" .

step measure
timeout 150 measure >"$results/measure.json" 2>"$results/measure.txt"
echo "rc $?"
tail -5 "$results/measure.txt"
tar czf "$out/results.tar.gz" -C "$results" .
step end
