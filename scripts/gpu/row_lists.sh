#!/bin/bash
# What short and packed sequences cost: the causal zigzag ring on all GPUs, the same tokens as one sequence and as many,
# 16 heads of 128, forward and backward. scripts/gpu/row_lists.sh OUT_DIR ['KEY = VALUE' of [schedule]]...
# Writes OUT_DIR/run-NAME.json of every run and OUT_DIR/table.txt: TFLOP/s of a GPU, by live pairs, and the kernels taken.
set -uo pipefail
out=$(mkdir -p "$1" && realpath "$1")
shift
schedule=("$@")
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
: >"$out/table.txt"
same() {  # LENGTH COUNT: "[LENGTH, LENGTH, ...]"
  local list=$1
  for _ in $(seq 2 "$2"); do list+=", $1"; done
  echo "[$list]"
}
run() {  # NAME LENGTHS PROBLEM...: lines of the scenario's table
  local name=$1 lengths=$2
  shift 2
  {
    printf '[problem]\nheads = 16\nhead_size = 128\ndtype = "bf16"\nmask = "causal"\n'
    printf '%s\n' "$@"
    printf '[parallel]\nranks = %s\nalgorithm = "ring"\nplacement = "zigzag"\n' "$gpus"
    printf '[schedule]\ntransport = "copy"\n'
    if ((${#schedule[@]})); then printf '%s\n' "${schedule[@]}"; fi
    printf '[hardware]\nfile = "hardware/h200x4.toml"\n'
  } >"$results/run.toml"
  timeout 60 cplab run "$results/run.toml" --quiet --operations --warmup 3 --iterations 11 \
    --json "$out/run-$name.json" >"$results/run.txt" 2>&1 ||
    { echo "$name: rc $?: $(tail -1 "$results/run.txt")" | tee -a "$out/table.txt"; return; }
  scripts/gpu/run_line.py "$name" "$lengths" "$gpus" "$out/run-$name.json" | tee -a "$out/table.txt"
}
for turn in 1 2; do  # by turns: the GPU's clock is not the same all the time
  for batch in 1 2 4 8; do
    run "$batch-x-$((16 / batch))K-$turn" "$(same $((16384 / batch)) $batch)" "sequence = $((16384 / batch))" \
      "batch = $batch"
  done
  # One sequence with as many FLOPs as 4 x 4K or 16 x 2K have, and as 8 x 2K or 32 x 1K; 16K has those of 4 x 8K.
  for tokens in 32768 8192 5793; do run "1-x-$tokens-$turn" "[$tokens]" "sequence = $tokens"; done
  for count in 4 16 32; do
    run "packed-$count-$turn" "$(same $((32768 / count)) $count)" \
      "lengths = $(same $((32768 / count)) $count)"
  done
  mixed="[16384, 77, 4096, 1500, 2048, 913, 6000, 1024, 726]"
  run "packed-mixed-$turn" "$mixed" "lengths = $mixed"
done
rm -f "$results/run.txt"
