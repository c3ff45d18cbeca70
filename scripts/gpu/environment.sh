#!/bin/bash
# To be sourced on a GPU machine: finds the packed libraries and NCCL, and keeps NVLink multicast off.
pack=$(realpath -m "${CPLAB_PACK:-build/pack}")
nccl=$(python3 -c 'import nvidia.nccl as n; print(list(n.__path__)[0] + "/lib")' 2>/dev/null || true)
export LD_LIBRARY_PATH="$pack/lib:${nccl:-}:${LD_LIBRARY_PATH:-}"
export PATH="$pack:$PATH"
export CPLAB_SCENARIOS="$PWD/scenarios"
export NCCL_NVLS_ENABLE=0
need() {  # COMMAND...: ends the campaign before it begins
  local command
  for command in "$@"; do
    command -v "$command" >/dev/null || { echo "$0: no $command on this machine" >&2; exit 3; }
  done
}
need nvidia-smi pgrep pkill python3
# cplab refuses what exceeds the free memory, but a container's limit also counts file caches, which would be given up;
# everything run here fits, so name the whole memory.
CPLAB_MEMORY=${CPLAB_MEMORY:-$(awk '/^MemTotal:/ { printf "%dK", $2 }' /proc/meminfo)}
export CPLAB_MEMORY
results=$(mktemp -d)  # what a campaign keeps
# How many GPUs this campaign may use: CUDA_VISIBLE_DEVICES lets several campaigns run beside each other on one machine.
if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
  gpus=$(tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | wc -l)
else
  gpus=$(nvidia-smi -L | wc -l)
fi
export gpus

machine() { nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv,noheader; }

# NAME ARGUMENTS...: one line: what verify said of ring-h200 with these arguments, and the kernels of the backward that the
# same plan takes.
verify_line() {
  local name=$1 said code
  shift
  said=$(mktemp "$results/verify-XXXX")
  timeout 90 cplab verify ring-h200 --quiet "$@" --device gpu --timeout 60 >"$said" 2>&1
  code=$?
  timeout 60 cplab run ring-h200 --quiet "$@" --iterations 1 --operations --json "$said.json" >"$said.run" 2>&1
  echo "$name: rc $code: $(tail -1 "$said" | cut -c1-100); $(
    grep -oE 'attend_backward [a-z]+ [a-z0-9 ]+' "$said.json" | sort -u | paste -sd, -)"
}

# What fails must say which rank and operation, end in time with the right code, and leave nothing behind.
failing() {  # NAME COMMAND...
  local name=$1 began=$SECONDS
  shift
  "$@" >"$results/failure.txt" 2>&1
  local code=$?
  {
    echo "## $name: exit $code after $((SECONDS - began)) s, processes left: $(pgrep -c cplab)"
    grep -vE '^ring, |^injected: ' "$results/failure.txt" | tail -7
  } | tee -a "$results/failures.txt"
}
