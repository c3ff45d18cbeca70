#!/bin/bash
# The causal zigzag ring on 2 GPUs over copy engines and over NCCL beside persistent kernels: channels, reserved
# multiprocessors, head starts and clusters of thread blocks, at 64K, 16K and 128K tokens. Docs: page 7.
# scripts/gpu/exchange.sh OUT_DIR [SECONDS [TOKENS...]]   Writes OUT_DIR/exchange.jsonl, a line as soon as a run has
# ended: name, tokens, total, exposed communication of the worst rank, the exchanges of rank 0, the settings. Begins no
# run after SECONDS (500 by default); what is in the file already is not run again. The most telling runs come first.
set -uo pipefail
out=$(mkdir -p "$1" && realpath "$1")
budget=${2:-500}
lengths=("${@:3}")
if [ ${#lengths[@]} -eq 0 ]; then lengths=(64K 16K 128K); fi
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
lines=$out/exchange.jsonl
: >>"$lines"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader >"$out/nvidia-smi.txt"
nvidia-smi topo -m >>"$out/nvidia-smi.txt"

# NAME TOKENS CLUSTER KEY=VALUE...: one run; CLUSTER 0 leaves the executor's choice, without clusters.
run() {
  local name=$1 tokens=$2 cluster=$3 sets=() code
  shift 3
  if grep -q "\"name\": \"$name\", \"tokens\": \"$tokens\"" "$lines"; then return; fi
  if [ "$SECONDS" -gt "$budget" ]; then
    echo "left out, $budget s are over: $tokens $name"
    return
  fi
  for pair in "$@"; do sets+=(--set "schedule.$pair"); done
  local environment=()
  if [ "$cluster" -gt 0 ]; then environment=("NCCL_CGA_CLUSTER_SIZE=$cluster"); fi
  rm -f "$results/run.json"
  env "${environment[@]}" timeout -k 2 60 cplab run ring-h200 --quiet --timeout 40 --operations --warmup 3 \
    --iterations 10 --set problem.sequence="$tokens" --set parallel.ranks=2 "${sets[@]}" \
    --json "$results/run.json" >"$results/run.txt" 2>&1
  code=$?
  python3 - "$name" "$tokens" "$cluster" "$code" "$results/run.json" "$results/run.txt" "$@" <<'PYTHON' | tee -a "$lines"
import json, os, sys
name, tokens, cluster, code, path, talk, *sets = sys.argv[1:]
line = {"name": name, "tokens": tokens, "rc": int(code), "cluster": int(cluster), "sets": sets}
if int(code) == 0 and os.path.exists(path):
    result = json.load(open(path))
    own = [o for o in result["operations"] if o["rank"] == 0 and o["kind"] == "exchange"]
    line["total_ms"] = round(result["time_s"] * 1e3, 3)
    line["times_ms"] = [round(t * 1e3, 3) for t in result["times_s"]]
    line["exposed_ms"] = round(max(r["exposed_communication_s"] for r in result["ranks"]) * 1e3, 3)
    line["exchanges_ms"] = [round((o["end_s"] - o["start_s"]) * 1e3, 3) for o in own]
    line["transports"] = result["transports"]
    line["nccl"] = result["environment"].get("nccl", "")
else:
    line["said"] = open(talk).read()[-400:]
print(json.dumps(line), flush=True)
PYTHON
}

# Right first: both transports and communicators with channels of their own.
for pair in transport=auto transport=nccl channels=2 channels=16; do
  timeout -k 2 60 cplab verify ring-small --device gpu --quiet --timeout 30 --set parallel.ranks=2 \
    --set schedule.transport=nccl --set "schedule.$pair" >"$results/verify.txt" 2>&1
  echo "verify $pair rc $?: $(tail -1 "$results/verify.txt")" | tee -a "$out/verify.txt"
done

plain=(transport=nccl head_start_us=0)  # as it was: whoever comes first
for tokens in "${lengths[@]}"; do
  run copy "$tokens" 0 transport=copy
  run default "$tokens" 0 transport=nccl
  run plain-clusters "$tokens" 4 "${plain[@]}"
  run plain "$tokens" 0 "${plain[@]}"
  for channels in 2 4 8 16; do
    run "head-10-channels-$channels" "$tokens" 0 transport=nccl channels=$channels
    run "reserved-$channels" "$tokens" 0 transport=nccl channels=$channels head_start_us=0 reserved_sms=$channels
  done
  run head-1 "$tokens" 0 transport=nccl head_start_us=1
  run head-5 "$tokens" 0 transport=nccl head_start_us=5
  run head-20 "$tokens" 0 transport=nccl head_start_us=20
  run head-50 "$tokens" 0 transport=nccl head_start_us=50
  # Are clusters why four multiprocessors for four channels did not do?
  run reserved-4-clusters "$tokens" 4 transport=nccl channels=4 head_start_us=0 reserved_sms=4
  run reserved-8-clusters "$tokens" 4 transport=nccl channels=8 head_start_us=0 reserved_sms=8
  run head-10-clusters "$tokens" 4 transport=nccl
done
