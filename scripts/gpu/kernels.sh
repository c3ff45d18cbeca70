#!/bin/bash
# The attention kernels on one GPU: checked, timed beside PyTorch's, and under the memory checkers.
# scripts/gpu/kernels.sh OUT_DIR [PARTS]   PARTS: any of check,deterministic,bench,segments,plans,peers,checkers,rungs,heights;
# all by default.
set -uo pipefail
out=$(mkdir -p "$1" && realpath "$1")
parts=${2:-check,deterministic,bench,segments,plans,peers,checkers,rungs,heights}
wants() { [[ ",$parts," == *",$1,"* ]]; }
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
if wants checkers; then need compute-sanitizer; fi
step() { echo "== $1 ($SECONDS s)"; }
pids=()
# shellcheck disable=SC2154
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm --format=csv,noheader | tee "$results/nvidia-smi.txt"

if wants check; then  # beside each other: nothing is timed
  step check
  for mode in best deterministic apart; do
    options=(--only attend --cases "${CASES:-96}" --threads 14)
    if [ $mode != best ]; then options+=("--$mode"); fi
    timeout -k 2 "${CHECK_SECONDS:-100}" tiles "${options[@]}" >"$results/tiles-$mode.txt" 2>&1 &
    pids[${#pids[@]}]=$!
  done
  for mode in best deterministic apart; do
    wait "${pids[0]}"
    echo "$mode: rc $?"
    pids=("${pids[@]:1}")
    tail -12 "$results/tiles-$mode.txt" | cut -c1-230
  done
fi
if wants deterministic; then  # the backward that adds to dq in order: how fast
  step deterministic
  program=$(command -v tiles)
  timeout -k 2 120 python3 scripts/compare_builds.py "$program:best" "$program:deterministic" "$program:apart" \
    --directions backward --rounds 5 --json "$results/deterministic.json" >"$results/deterministic-times.txt" 2>&1
  echo "rc $?"
  cat "$results/deterministic-times.txt"
fi
if wants bench; then
  step bench
  timeout -k 2 40 tiles --bench --only attend >"$results/bench.txt" 2>&1
  echo "rc $?"
  cut -c1-160 "$results/bench.txt"
fi
if wants segments; then
  step segments
  timeout -k 2 60 tiles --bench --only segments >"$results/segments.txt" 2>&1
  echo "rc $?"
  cat "$results/segments.txt"
fi
if wants plans; then
  step plans
  for size in 64 128; do
    for ranks in 1 2 4; do
      timeout -k 2 20 cplab verify ring-small --device gpu --ranks-per-gpu 8 --set schedule.transport=copy --quiet \
        --set problem.head_size=$size --set problem.value_size=$size --set parallel.ranks=$ranks \
        --set problem.sequence=1024 2>&1 | tail -1
    done
  done
fi
if wants peers; then
  step peers
  candidates=${CANDIDATES:-cudnn,flash,triton,cudnn_packed,flash_packed,best,deterministic,apart,portable}
  if [ -n "${FA4_DIR:-}" ]; then candidates+=,fa4,fa4_packed,fa4_deterministic; fi
  timeout -k 2 "${PEERS_SECONDS:-300}" python3 scripts/peer_attention.py --ours "$(command -v tiles)" --candidates "$candidates" --rounds 5 \
    --energy 0.7 --out "$results/attention.json" >"$results/peers.txt" 2>&1
  echo "rc $?"
  cat "$results/peers.txt"
fi
if wants checkers; then
  step checkers
  cases=(1 2 10 11 18 31 41 43 59 65 70 82 90)  # windows, tails, rising scores, most on Hopper kernels: the summary says which
  tools="memcheck racecheck synccheck initcheck"
  checked() {  # TOOL MODE CASE
    local options=(--only attend --threads 1 --case "$3")
    if [ "$2" != best ]; then options+=("--$2"); fi
    timeout -k 2 150 compute-sanitizer --tool "$1" --error-exitcode 9 tiles --alone "${options[@]}" \
      >"$results/$1-$2-$3.txt" 2>&1
  }
  for mode in best deterministic; do
    for case in "${cases[@]}"; do
      for tool in $tools; do checked "$tool" $mode "$case" & done
    done
    wait
  done
  for mode in best deterministic; do
    for tool in $tools; do
      for case in "${cases[@]}"; do
        said=$results/$tool-$mode-$case.txt
        echo "$tool, $mode, case $case: $(grep -E 'SUMMARY' "$said" | tr '\n' ' ')" \
          "$(grep -E '^attend' "$said" | cut -c1-36 | tr -s ' ' | tr '\n' ';')"
      done
    done
  done
fi
if wants rungs; then
  step rungs
  timeout -k 2 60 rungs --out "$results/rungs.json" >"$results/rungs.txt" 2>&1
  echo "rc $?"
  cat "$results/rungs.txt"
fi
if wants heights; then
  step heights
  timeout -k 2 60 tiles --heights >"$results/heights.json"
  echo "rc $?"
fi
tar czf "$out/results.tar.gz" -C "$results" .
step end
