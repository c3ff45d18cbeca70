#!/bin/bash
# A change to an attention kernel on one GPU: checked, under sanitizers, and timed by turns with the build before it.
#   scripts/gpu/kernel_step.sh OUT_DIR TILES_BEFORE TILES_NOW DIRECTION VARIANT...
# VARIANT: a kernel's name as `tiles` prints it. The sanitizers run on the first two small cases that take it.
# SHAPES, ROUNDS: of scripts/compare_builds.py. Ends with 1 if a check or a sanitizer found something.
set -uo pipefail
out=$(mkdir -p "$1" && realpath "$1")
before=$(realpath "$2")
now=$(realpath "$3")
direction=$4
shift 4
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
need compute-sanitizer
wrong=0
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.limit,temperature.gpu --format=csv >"$out/nvidia-smi.txt"

for seed in 1 5; do
  timeout 120 "$now" --only attend --cases 112 --seed $seed >"$out/tiles-best-$seed.txt" 2>&1 || wrong=1
done
timeout 120 "$now" --only attend --cases 112 --seed 1 --deterministic >"$out/tiles-deterministic.txt" 2>&1 || wrong=1
tail -qn 1 "$out"/tiles-*.txt

shapes=() # the script's own unless SHAPES names some
if [ -n "${SHAPES:-}" ]; then shapes=(--shapes "$SHAPES"); fi
for choice in best deterministic; do
  timeout 200 python3 scripts/compare_builds.py "$before" "$now" --directions "$direction" --choice $choice \
    "${shapes[@]}" --rounds "${ROUNDS:-9}" --json "$out/by-turns-$choice.json"
done

: >"$out/sanitizers.txt"
for variant in "$@"; do
  found=0
  options=(--seed 1)
  if [[ $variant == *ordered* ]]; then options+=(--deterministic); fi
  for number in $(seq 0 60); do
    [ $found -lt 2 ] || break
    timeout 20 "$now" --only attend --case "$number" "${options[@]}" 2>&1 | grep -q "^$variant " || continue
    found=$((found + 1))
    for tool in racecheck memcheck synccheck initcheck; do
      echo "$tool --case $number ${options[*]}" >>"$out/sanitizers.txt"
      timeout 60 compute-sanitizer --tool $tool --report-api-errors no --error-exitcode 9 "$now" --only attend \
        --case "$number" "${options[@]}" >"$results/last.txt" 2>&1
      code=$?
      [ $code = 0 ] || wrong=1
      echo "rc $code" >>"$out/sanitizers.txt"
      grep -E "^$variant |SUMMARY" "$results/last.txt" >>"$out/sanitizers.txt"
    done
  done
  [ $found -gt 0 ] || { echo "$variant: no case takes it" | tee -a "$out/sanitizers.txt"; wrong=1; }
done
grep -c "^rc 0" "$out/sanitizers.txt"
exit $wrong
