#!/bin/bash
# Dynamic mask attention on one GPU: kernels checked, scenarios verified and run, memory checkers, times by density.
# scripts/gpu/masked.sh OUT_DIR [PARTS]   PARTS: any of check,verify,run,checkers,bench; all by default. Exit 1 if a check
# fails. OUT_DIR/masked.json is what plots/dynamic_mask.py draws.
set -uo pipefail
out=$(mkdir -p "$1" && realpath "$1")
parts=${2:-check,verify,run,checkers,bench}
wants() { [[ ",$parts," == *",$1,"* ]]; }
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
if wants checkers; then need compute-sanitizer; fi
failed=0
step() { echo "== $1 ($SECONDS s)"; }
held() {  # NAME COMMAND...: its last lines, and whether it went well
  local name=$1
  shift
  "$@" >"$out/$name.txt" 2>&1 || { failed=1; echo "$name: exit $?"; tail -5 "$out/$name.txt"; return; }
  echo "$name: $(tail -1 "$out/$name.txt")"
}
nvidia-smi --query-gpu=name,uuid,driver_version,clocks.current.sm,clocks.max.sm,power.limit --format=csv |
  tee "$out/nvidia-smi.txt"

if wants check; then
  step check
  held tiles timeout -k 2 60 tiles --only masked --cases "${CASES:-300}" --threads 14
fi
one_gpu=(--device gpu --ranks-per-gpu 8 --set schedule.transport=copy --quiet)
if wants verify; then  # keep = "relu" has no top_k, which --set cannot take away
  step verify
  grep -v '^top_k' scenarios/dynamic-mask.toml | sed 's/keep = "top_k"/keep = "relu"/' >"$results/relu.toml"
  for scenario in dynamic-mask "$results/relu.toml"; do
    for bias in full keys; do
      for algorithm in ring all_gather all_to_all; do
        held "verify-$(basename "$scenario" .toml)-$bias-$algorithm" timeout -k 2 20 cplab verify "$scenario" \
          "${one_gpu[@]}" --set problem.head_size=128 --set problem.value_size=128 --set problem.bias="\"$bias\"" \
          --set parallel.algorithm="\"$algorithm\"" --set parallel.ranks=2
      done
    done
  done
fi
if wants run; then  # which kernels a ring of keys takes, and what it loses: `fall_back` of operations
  step run
  for bias in full keys; do
    held "run-$bias" timeout -k 2 30 cplab run dynamic-mask "${one_gpu[@]}" --set problem.head_size=128 \
      --set problem.value_size=128 --set problem.sequence=8192 --set problem.top_k=512 --set problem.block=64 \
      --set problem.bias="\"$bias\"" --set parallel.ranks=2 --operations --json "$out/run-$bias.json"
    python3 - "$out/run-$bias.json" <<'PY'
import json
import sys
kernels = {}
for operation in json.load(open(sys.argv[1], encoding="utf-8"))["operations"]:
    if operation["kind"].startswith("attend"):
        name = (operation["variant"], operation.get("fall_back", ""))
        kernels[name] = kernels.get(name, 0) + operation["end_s"] - operation["start_s"]
for (variant, fall_back), seconds in kernels.items():
    print(f"  {variant}: {1e3 * seconds:.3f} ms {fall_back}")
PY
  done
fi
if wants checkers; then
  step checkers
  for tool in memcheck racecheck; do
    held "$tool" timeout -k 2 60 compute-sanitizer --tool "$tool" --error-exitcode 1 "$(command -v tiles)" --alone \
      --only masked --cases "${CHECKED_CASES:-6}" --threads 1
  done
fi
if wants bench; then
  step bench
  if timeout -k 2 60 tiles --bench --only masked >"$out/masked.json" 2>"$out/bench.txt"; then
    grep select_keys "$out/masked.json"
  else
    failed=1
    tail -3 "$out/bench.txt"
  fi
fi
step "done, failed: $failed"
exit $failed
