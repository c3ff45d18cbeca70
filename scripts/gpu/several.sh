#!/bin/bash
# Everything that needs several GPUs, on one machine in one run: verification over both links, threads and
# processes, runs of the causal zigzag ring beside PyTorch's context parallelism, and the machine's tables.
# scripts/gpu/several.sh OUT_DIR [PARTS [LINKS]]   PARTS: any of verify,collectives,failures,runs,graphs,peers,
# peer-pair,measure; all by default. LINKS of the failures: "copy nccl". Leaves one archive in OUT_DIR.
set -uo pipefail
out=$(mkdir -p "$1" && realpath "$1")
parts=${2:-verify,collectives,failures,runs,graphs,peers,peer-pair,measure}
links=${3:-copy nccl}
wants() { [[ ",$parts," == *",$1,"* ]]; }
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
step() { echo "== $1 ($SECONDS s)"; }

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm --format=csv >"$results/nvidia-smi.txt"
nvidia-smi topo -m >>"$results/nvidia-smi.txt"

if wants verify; then
step verify
for transport in copy nccl; do
  # The ring here; the others: families.sh, lasp.sh.
  timeout 80 grid --gpu 1 --most-ranks "$gpus" --transport $transport --algorithm ring --strength 2 \
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

if wants collectives; then
step collectives
timeout 400 collectives >"$results/collectives.txt" 2>&1
echo "collectives rc $?: $(tail -1 "$results/collectives.txt")"
fi

if wants failures; then
  step failures
  long=(cplab run ring-h200 --quiet --iterations 100000 --set problem.sequence=16K --set parallel.ranks="$gpus")
  hang=(cplab verify faults/ring --device gpu --timeout 8 --quiet --set problem.direction=forward)
  # Messages of 32 MiB, which no library buffers.
  large=(--set problem.sequence=32K --set problem.heads=8 --set problem.kv_heads=8 --set problem.head_size=128
    --set problem.dtype=bf16)
  for transport in $links; do
    for signal in KILL STOP; do
      (sleep 9 && pkill -$signal -f "cplab run ring-h200 .*iterations 100000" -n) &
      failing "a rank gets SIG$signal, $transport" timeout 90 scripts/ranks.sh "$gpus" "${long[@]}" --timeout 18 \
        --set schedule.transport="$transport"
      wait
    done
    failing "unordered-exchange, $transport" timeout 60 "${hang[@]}" --inject unordered-exchange \
      --set schedule.transport="$transport"
    failing "dropped-receive, $transport" timeout 90 "${hang[@]}" --inject dropped-receive "${large[@]}" \
      --set schedule.transport="$transport"
  done
  failing "too many ranks" timeout 60 cplab run ring-h200 --quiet --set parallel.ranks=8
  failing "too much memory" timeout 60 cplab run ring-h200 --quiet --set problem.sequence=64M --set parallel.ranks=2
  # Another process holds nearly all memory of the last GPU.
  python3 - "$((gpus - 1))" <<'HOG' &
import sys, time, torch
device = torch.device("cuda", int(sys.argv[1]))
taken = torch.empty(torch.cuda.mem_get_info(device)[0] - (900 << 20), dtype=torch.int8, device=device)
time.sleep(60)
HOG
  hog=$!
  sleep 15
  short=(cplab run ring-h200 --quiet --timeout 20 --set problem.sequence=128K --set parallel.ranks="$gpus")
  failing "the last GPU is full, threads" timeout 60 "${short[@]}"
  failing "the last GPU is full, processes" timeout 60 scripts/ranks.sh "$gpus" "${short[@]}"
  kill $hog 2>/dev/null
  wait
fi

if wants runs; then
step runs
for tokens in 4K 16K 32K 64K 128K; do
  repeat=()  # the long ones vary by less than 1 %
  if [ $tokens = 128K ]; then repeat=(--warmup 2 --iterations 11); fi
  for ranks in 1 2 4; do
    [ "$ranks" -le "$gpus" ] || continue
    for transport in copy nccl; do
      [ "$ranks" -gt 1 ] || [ $transport = copy ] || continue
      name="$tokens-P$ranks-$transport"
      timeout 60 cplab run ring-h200 --quiet --operations --json "$results/run-$name.json" \
        --set problem.sequence=$tokens --set parallel.ranks=$ranks --set schedule.transport=$transport \
        "${repeat[@]}" --timeout 50 >"$results/run.txt" 2>&1
      code=$?
      echo "run $name rc $code: $(sed -n 2p "$results/run.txt")"
      [ $code -eq 0 ] || { rm -f "$results/run-$name.json"; tail -3 "$results/run.txt"; }
    done
    if [ "$ranks" = 1 ] || ! wants graphs; then continue; fi
    timeout 60 cplab run ring-h200 --quiet --graph --json "$results/graph-$tokens-P$ranks-copy.json" \
      --set problem.sequence=$tokens --set parallel.ranks=$ranks --set schedule.transport=copy \
      "${repeat[@]}" --timeout 50 >"$results/run.txt" 2>&1
    echo "graph $tokens-P$ranks rc $?: $(sed -n 2p "$results/run.txt")"
  done
done
fi

# PyTorch's runs (the peer) lie between runs of ours on the same GPUs.
again() {
  for tokens in 4K 16K 64K; do
    timeout 60 cplab run ring-h200 --quiet --json "$results/again-$1-$tokens-P$gpus-copy.json" \
      --set problem.sequence=$tokens --set parallel.ranks="$gpus" --timeout 50 >"$results/run.txt" 2>&1
    echo "again $1 $tokens rc $?: $(sed -n 2p "$results/run.txt")"
  done
}
peer() {  # RANKS
  timeout 150 python3 -m torch.distributed.run --nproc-per-node "$1" scripts/peer_context_parallel.py \
    --sequences 4096,16384,32768,65536,131072 --out "$results/peer-P$1.json" >"$results/peer.txt" 2>&1
  echo "rc $?"
  grep backward "$results/peer.txt" | tail -12
}
if wants peers; then
  step peers
  peer "$gpus"
  again after-peer
fi
if wants peer-pair; then
  step peer-pair
  peer 2
fi

if wants measure; then
step measure
timeout 300 cplab calibrate --out "$results/hardware.toml" --budget 250 >"$results/measure.txt" 2>&1
echo "rc $?"
tail -5 "$results/measure.txt"
fi
tar czf "$out/results.tar.gz" -C "$results" .
step end
