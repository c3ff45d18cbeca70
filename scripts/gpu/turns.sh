#!/bin/bash
# Backward kernels that take turns, through plans and alone, on the GPUs of one machine: `cplab verify` of every softmax
# algorithm on one GPU and on two, over both links, default and deterministic, and with ranks that share a GPU; the same
# with few key heads, whose dk and dv may be sums, and how long such plans take; then compute-sanitizer on the cases whose
# tiles walk in rings, go in chains or add to dk and dv.
# scripts/gpu/turns.sh OUT_DIR [PARTS]   PARTS: any of verify,grouped,steps,checkers; all by default.
# Leaves verify.txt, grouped.txt, steps.txt and sanitizers.txt in OUT_DIR: one line each for a run, with the kernels that
# verify took.
set -uo pipefail
out=$(mkdir -p "$1" && realpath "$1")
parts=${2:-verify,grouped,steps,checkers}
wants() { [[ ",$parts," == *",$1,"* ]]; }
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh

# What is to be verified, a line each: name | settings | other arguments.
cases() {
  local algorithm width shape mask placement ranks transport more
  for more in "" --deterministic; do
    for width in 64 128; do
      for shape in 1x512 1x1024 1x2048 3x700 2x1411; do  # the last two are no whole blocks
        for mask in full causal; do
          placement=zigzag
          [ $mask = full ] && placement=contiguous
          for ranks in $(seq "$gpus"); do
            for transport in copy nccl; do
              [ "$ranks,$transport" = 1,nccl ] && continue
              echo "ring P=$ranks $transport D=$width $shape $mask $more|parallel.ranks=$ranks" \
                "schedule.transport=$transport problem.head_size=$width problem.batch=${shape%x*}" \
                "problem.sequence=${shape#*x} problem.mask=$mask parallel.placement=$placement|$more"
            done
          done
        done
      done
      for algorithm in ring all_gather head_strided all_to_all; do
        echo "$algorithm, 4 ranks, jitter, batch of 2, 4 heads on 2, D=$width $more|parallel.ranks=4" \
          "parallel.algorithm=$algorithm schedule.transport=copy problem.head_size=$width problem.batch=2" \
          "problem.sequence=1024 problem.kv_heads=2 problem.mask=full parallel.placement=contiguous" \
          "|--ranks-per-gpu $((4 / gpus)) --jitter 3 $more"
      done
    done
  done
}
# The same of few key heads.
grouped_cases() {
  local algorithm heads width shape ranks more
  for more in "" --deterministic; do
    for algorithm in ring all_gather head_strided all_to_all; do
      for ranks in $(seq "$gpus"); do
        for heads in 1 2 4; do
          [ "$algorithm" = all_to_all ] && [ $((8 % ranks)) != 0 ] && continue
          for width in 64 128; do
            for shape in 1x1024 2x700; do
              echo "$algorithm P=$ranks, 8 heads on $heads, D=$width $shape causal $more|parallel.ranks=$ranks" \
                "parallel.algorithm=$algorithm problem.heads=8 problem.kv_heads=$heads problem.head_size=$width" \
                "problem.batch=${shape%x*} problem.sequence=${shape#*x} problem.mask=causal" \
                "parallel.placement=zigzag|$more"
            done
          done
        done
      done
    done
  done
}
# RANKS: times of whole plans: sums of dk and dv or none (accumulator), and what two ranks of a ring send.
steps() {
  local algorithm heads tokens setting
  for algorithm in ring all_to_all; do
    for heads in 2 4 16; do
      for tokens in 2048 8192 16384 32768; do
        for setting in "" accumulator=nominal gradient_wire_dtype=fp32; do
          [ "$algorithm" = all_to_all ] && [[ "$1" = 1 || $setting = gradient* ]] && continue
          [ "$1,$setting" = 1,gradient_wire_dtype=fp32 ] && continue
          rm -f "$results/step.json"
          timeout 120 cplab run ring-h200 --quiet --set parallel.algorithm="$algorithm" --set parallel.ranks="$1" \
            --set problem.heads=16 --set problem.kv_heads="$heads" --set problem.head_size=128 --set problem.batch=1 \
            --set problem.sequence="$tokens" --set problem.mask=causal --set parallel.placement=zigzag \
            --set schedule.transport=copy ${setting:+--set schedule.$setting} --iterations 15 --json "$results/step.json" \
            >"$results/step.txt" 2>&1 || { tail -1 "$results/step.txt"; continue; }
          python3 scripts/gpu/run_line.py "$algorithm P=$1, 16 heads on $heads of 128, $tokens tokens, ${setting:-default}" \
            "[$tokens]" "$1" "$results/step.json"
        done
      done
    done
  done
}
one() {
  local name settings more arguments=()
  IFS='|' read -r name settings more <<<"$1"
  for setting in $settings; do arguments+=(--set "$setting"); done
  # shellcheck disable=SC2086
  verify_line "$name" --set problem.heads=4 "${arguments[@]}" $more
}

if wants verify; then
  machine >"$out/verify.txt"
  export -f verify_line one
  export results
  # Several at once: the dense reference on the CPU takes longer than the GPU does.
  # shellcheck disable=SC2016
  cases | xargs -P 16 -d '\n' -I{} bash -c 'one "$1"' _ {} | sort | tee -a "$out/verify.txt"
fi

if wants grouped; then
  machine >"$out/grouped.txt"
  export -f verify_line one
  export results
  # shellcheck disable=SC2016
  grouped_cases | xargs -P 16 -d '\n' -I{} bash -c 'one "$1"' _ {} | sort | tee -a "$out/grouped.txt"
fi
if wants steps; then
  machine >"$out/steps.txt"
  for ranks in $(seq "$gpus"); do steps "$ranks"; done | tee -a "$out/steps.txt"
fi

# CASE SEED TOOL CHOICE: one line, what the sanitizer said.
check() {
  local said code
  said=$(mktemp "$results/check-XXXX")
  # shellcheck disable=SC2086
  timeout 240 compute-sanitizer --tool "$3" --error-exitcode 9 tiles --alone --only attend --threads 4 --case "$1" \
    --seed "$2" $4 >"$said" 2>&1
  code=$?
  echo "case $1, seed $2 $4, $3: rc $code: $(grep -E 'SUMMARY' "$said" | tail -1)"
}
checks() {
  local number seed choice tool
  for number in 35 99 71 3; do  # 3: of seed 2, adds to dk and dv, and next has queries without a gradient
    for seed in 2 3; do
      for choice in "" --deterministic; do
        for tool in memcheck racecheck synccheck initcheck; do echo "$number $seed $tool $choice"; done
      done
    done
  done
}

if wants checkers; then
  machine >"$out/sanitizers.txt"
  need compute-sanitizer
  export -f check
  export results
  # shellcheck disable=SC2016
  checks | xargs -P 8 -d '\n' -I{} bash -c 'check $1' _ {} | sort | tee -a "$out/sanitizers.txt"
fi
