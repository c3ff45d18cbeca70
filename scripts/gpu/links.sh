#!/bin/bash
# The links of one machine by turns: a ring of all its GPUs verified over each, then timed over copy, nccl, copy, nccl.
# scripts/gpu/links.sh OUT_DIR [TOKENS]    TOKENS: lengths of the timed sequence, "4K 16K 64K 128K" by default
# Writes OUT_DIR/verify.txt, OUT_DIR/run-TOKENS-LINK-TURN.json and OUT_DIR/table.txt. Exit 1 if anything failed.
set -uo pipefail
out=$(mkdir -p "$1" && realpath "$1")
lengths=${2:-4K 16K 64K 128K}
failed=0
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.limit --format=csv >"$out/nvidia-smi.txt"
: >"$out/verify.txt"
: >"$out/table.txt"
# Short: the dense reference is computed on a CPU. Long enough for the kernels that long sequences take.
for link in copy nccl; do
  for shape in "64 512" "64 1024" "128 512" "128 1024"; do
    read -r head tokens <<<"$shape"
    timeout 60 cplab verify ring-small --device gpu --quiet --set parallel.ranks="$gpus" \
      --set schedule.transport=$link --set problem.head_size="$head" --set problem.value_size="$head" \
      --set problem.sequence="$tokens" >"$results/verify.txt" 2>&1
    code=$?
    [ $code -eq 0 ] || failed=1
    echo "## $link, head size $head, $tokens tokens: exit $code" >>"$out/verify.txt"
    cat "$results/verify.txt" >>"$out/verify.txt"
    echo "verify $link $head $tokens rc $code: $(tail -1 "$results/verify.txt")"
  done
done
for tokens in $lengths; do
  repeat=()  # the long ones vary by less than 1 %
  if [ "$tokens" = 128K ]; then repeat=(--warmup 2 --iterations 9); fi
  for turn in 1 2; do
    for link in copy nccl; do
      timeout 60 cplab run ring-h200 --quiet --operations --json "$out/run-$tokens-$link-$turn.json" \
        --set problem.sequence="$tokens" --set parallel.ranks="$gpus" --set schedule.transport=$link \
        "${repeat[@]}" --timeout 50 >"$results/run.txt" 2>&1
      code=$?
      echo "run $tokens $link $turn rc $code: $(sed -n 2p "$results/run.txt")" | tee -a "$out/table.txt"
      [ $code -eq 0 ] || { failed=1; rm -f "$out/run-$tokens-$link-$turn.json"; tail -3 "$results/run.txt"; }
    done
  done
done
exit $failed
