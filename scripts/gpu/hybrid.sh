#!/bin/bash
# Placement hybrid: verified with several ranks on each GPU, then timed beside what is predicted for 2 ranks.
# scripts/gpu/hybrid.sh OUT_DIR [PARTS]     PARTS: any of verify,sanitizers,grid,times; all by default
# On 2 GPUs or more zigzag and hybrid run by turns. On one GPU each of the two ranks runs alone, as a plan of one rank
# with the sequences that are whole there: where none is cut nothing travels, and no rank waits for the other.
# Writes OUT_DIR/verify-NAME.json, OUT_DIR/run-*.json and OUT_DIR/table.txt.
set -uo pipefail
out=$(mkdir -p "$1" && realpath "$1")
parts=${2:-verify,sanitizers,grid,times}
wants() { [[ ",$parts," == *",$1,"* ]]; }
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
if wants sanitizers; then need compute-sanitizer; fi
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.limit --format=csv >"$out/nvidia-smi.txt"
: >"$out/table.txt"
say() { echo "$*" | tee -a "$out/table.txt"; }

verify() {  # NAME WORLD KEY=VALUE...
  local name=$1 world=$2 set sets=()
  shift 2
  for set in "$@"; do sets+=(--set "$set"); done
  timeout 120 cplab verify documents --device gpu --quiet --ranks-per-gpu $(((world + gpus - 1) / gpus)) \
    --set parallel.ranks="$world" --set problem.heads=4 --set problem.kv_heads=2 \
    "${sets[@]}" --json "$out/verify-$name.json" >"$results/verify.txt" 2>&1
  say "verify $name rc $?: $(tail -1 "$results/verify.txt")"
}
if wants verify; then
  verify replicas-2x2 4 parallel.ranks=2 parallel.replicas=2 "problem.lengths=[512,700,64,90,300,2100]"
  verify cut-and-whole-4 4 "problem.lengths=[3000,200,77,640,1,0,513,900]"
  verify cut-and-whole-8 8 "problem.lengths=[3000,200,77,640,1,0,513,900]" problem.dtype=fp16
  verify homes-2 2 "problem.lengths=[700,130,64,2100]" "parallel.homes=[1,-1,0,-1]"
  verify whole-4 4 "problem.lengths=[512,512,512,512,512,512,512,512]"
fi
for tool in memcheck racecheck synccheck; do
  wants sanitizers || break
  timeout 100 compute-sanitizer --tool $tool --report-api-errors no --error-exitcode 9 "$(command -v cplab)" \
    verify documents --device gpu --quiet --ranks-per-gpu 4 --allocator separate --set problem.heads=2 \
    --set "problem.lengths=[300,90,77,64,1,0,33]" >"$results/sanitizer.txt" 2>&1
  say "$tool rc $?: $(grep -aE 'SUMMARY' "$results/sanitizer.txt" | tail -1)"
done
if wants grid; then
  timeout 200 grid --gpu 8 --strength 2 --algorithm ring >"$out/grid.txt" 2>&1
  say "grid rc $?: $(tail -1 "$out/grid.txt")"
fi
wants times || exit 0

same() {  # LENGTH COUNT: "[LENGTH,LENGTH,...]"
  local list=$1
  for _ in $(seq 2 "$2"); do list+=",$1"; done
  echo "[$list]"
}
# What one rank of two has under hybrid, as lengths; fails where a sequence is cut.
share() {  # RANK LENGTHS
  cplab show documents --quiet --set parallel.ranks=2 --set "problem.lengths=$2" --json "$results/show.json" \
    >/dev/null || return
  python3 - "$1" "$results/show.json" <<'PYTHON'
import json, sys
scenario = json.load(open(sys.argv[2]))["scenario"]
homes, lengths = scenario["parallel"]["homes"], scenario["problem"]["lengths"]
if -1 in homes:
    sys.exit("a sequence is cut")
print("[" + ",".join(str(n) for n, home in zip(lengths, homes) if home == int(sys.argv[1])) + "]")
PYTHON
}
predicted() {  # RANKS PLACEMENT LENGTHS
  cplab simulate documents --quiet --set parallel.ranks="$1" --set parallel.placement="$2" \
    --set "problem.lengths=$3" --json "$results/simulate.json" >/dev/null
  python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["time_s"])' "$results/simulate.json"
}
run() {  # NAME RANKS PLACEMENT LENGTHS
  timeout 60 cplab run documents --quiet --operations --warmup 3 --iterations 11 --set parallel.ranks="$2" \
    --set parallel.placement="$3" --set "problem.lengths=$4" --json "$out/run-$1.json" >"$results/run.txt" 2>&1 ||
    { say "$1: rc $?: $(tail -1 "$results/run.txt")"; return; }
  scripts/gpu/run_line.py "$1" "$4" "$2" "$out/run-$1.json" "$(predicted "$2" "$3" "$4")" | tee -a "$out/table.txt"
}
documents=$(sed -n '/^lengths/,/^]/p' scenarios/documents.toml | tail -n +2 | tr -d ' \n]')
for turn in 1 2; do
  for shape in 2x8K:8192:2 4x4K:4096:4 8x2K:2048:8 packed-4x8K:8192:4 packed-16x2K:2048:16 packed-32x1K:1024:32 \
    documents; do
    IFS=: read -r name length count <<<"$shape"
    lengths="[$documents]"
    if [ -n "$count" ]; then lengths=$(same "$length" "$count"); fi
    if [ "$gpus" -ge 2 ]; then
      for placement in zigzag hybrid; do run "$name-$placement-$turn" 2 $placement "$lengths"; done
    else
      for rank in 0 1; do run "$name-rank-$rank-$turn" 1 zigzag "$(share $rank "$lengths")"; done
    fi
  done
  for tokens in 16384 8192 5793; do
    if [ "$gpus" -ge 2 ]; then run "1x$tokens-$turn" 2 zigzag "[$tokens]"; fi
  done
done
