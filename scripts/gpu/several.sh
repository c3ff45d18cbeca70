#!/bin/bash
# Everything that needs several GPUs, on one machine in one run: verification over both links, threads and
# processes, runs of the causal zigzag ring beside PyTorch's context parallelism, and the machine's tables.
# scripts/gpu/several.sh OUT_DIR [PARTS]   PARTS: any of verify,failures,runs,peers,measure; all by default. Leaves one
# archive in OUT_DIR.
set -uo pipefail
out=$1
parts=${2:-verify,failures,runs,peers,measure}
wants() { [[ ",$parts," == *",$1,"* ]]; }
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091
source scripts/gpu/environment.sh
gpus=$(nvidia-smi -L | wc -l)
results=$(mktemp -d)
step() { echo "== $1 ($SECONDS s)"; }

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm --format=csv >"$results/nvidia-smi.txt"
nvidia-smi topo -m >>"$results/nvidia-smi.txt"

if wants verify; then
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
fi

if wants failures; then
  step failures
  for transport in copy nccl; do
    # A rank is killed in the middle of a run.
    (
      sleep 12
      pkill -9 -f "cplab run ring-h200 .*iterations 100000" -n
    ) &
    began=$SECONDS
    timeout 60 scripts/ranks.sh "$gpus" cplab run ring-h200 --quiet --timeout 40 --iterations 100000 \
      --set parallel.ranks="$gpus" --set problem.sequence=16K --set schedule.transport=$transport 2>&1 | tail -6
    echo "killed rank, $transport: rc ${PIPESTATUS[0]} after $((SECONDS - began)) s, left: $(pgrep -c cplab)"
    wait
    # Every rank sends before it receives, and nobody buffers.
    timeout 60 cplab verify faults/ring --device gpu --inject unordered-exchange --timeout 8 --quiet \
      --set schedule.transport=$transport 2>&1 | tail -3
    echo "hang, $transport: rc ${PIPESTATUS[0]}"
  done
  timeout 60 cplab run ring-h200 --quiet --set parallel.ranks=8
  echo "too many ranks: rc $?"
  timeout 60 cplab run ring-h200 --quiet --set problem.sequence=64M --set parallel.ranks=2
  echo "too much memory: rc $?"
fi

if wants runs; then
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
fi

if wants peers; then
step peers
timeout 120 python3 -m torch.distributed.run --nproc-per-node "$gpus" scripts/peer_context_parallel.py \
  --out "$results/peer.json" >"$results/peer.txt" 2>&1
echo "rc $?"
tail -12 "$results/peer.txt"
fi

if wants measure; then
step measure
timeout 150 measure >"$results/measure.json" 2>"$results/measure.txt"
echo "rc $?"
tail -5 "$results/measure.txt"
fi
tar czf "$out/results.tar.gz" -C "$results" .
step end
