#!/bin/bash
# A change to an attention kernel on one GPU: checked, under sanitizers, and timed by turns with the build before it.
#   scripts/gpu/kernel_step.sh OUT_DIR TILES_BEFORE TILES_NOW DIRECTION VARIANT...
# The programs' file names must differ. VARIANT: a kernel's name as `tiles` prints it. The sanitizers run on the first two
# of 112 cases that take it. SHAPES, ROUNDS: of scripts/compare_builds.py. DRAWN: also times so many problems drawn from
# SEED (7). Ends with 1 if a check or a sanitizer found something, or a timing failed.
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
checks=(--only attend)
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.limit,temperature.gpu --format=csv >"$out/nvidia-smi.txt"

for seed in 1 5; do
  timeout 120 "$now" "${checks[@]}" --cases 112 --seed $seed >"$out/tiles-best-$seed.txt" 2>&1 || wrong=1
done
timeout 120 "$now" "${checks[@]}" --cases 112 --seed 1 --deterministic >"$out/tiles-deterministic.txt" 2>&1 || wrong=1
tail -qn 1 "$out"/tiles-*.txt

shapes=() # the script's own unless SHAPES names some
if [ -n "${SHAPES:-}" ]; then shapes=(--shapes "$SHAPES"); fi
for choice in best deterministic; do
  timeout 200 python3 scripts/compare_builds.py "$before" "$now" --directions "$direction" --choice $choice \
    "${shapes[@]}" --rounds "${ROUNDS:-9}" --json "$out/by-turns-$choice.json" || wrong=1
done
if [ -n "${DRAWN:-}" ]; then
  timeout 200 python3 scripts/compare_builds.py "$before:best" "$before:deterministic" "$now:best" "$now:deterministic" \
    --directions "$direction" --drawn "$DRAWN" --seed "${SEED:-7}" --rounds "${ROUNDS:-9}" --json "$out/drawn.json" || wrong=1
fi

# Whether a file has checks of the kernel: its name is a line's beginning, then two spaces or more and a number.
has() { awk -v name="$1" 'index($0, name) == 1 && substr($0, length(name) + 1) ~ /^ +[0-9]+ checks/ { found = 1 }
                          END { exit !found }' "$2"; }
: >"$out/sanitizers.txt"
listed() {  # OPTIONS...: what each case takes with them, once
  local number
  [ ! -e "$results/cases$*-0.txt" ] || return 0
  for number in $(seq 0 111); do
    timeout 20 "$now" "${checks[@]}" --case "$number" "$@" >"$results/cases$*-$number.txt" 2>&1 || wrong=1
  done
}
for variant in "$@"; do
  found=0
  options=(--seed 1)
  if [[ $variant == *ordered* ]]; then options+=(--deterministic); fi
  listed "${options[@]}"
  for number in $(seq 0 111); do
    [ $found -lt 2 ] || break
    has "$variant" "$results/cases${options[*]}-$number.txt" || continue
    found=$((found + 1))
    for tool in racecheck memcheck synccheck initcheck; do
      echo "$tool --case $number ${options[*]}" >>"$out/sanitizers.txt"
      timeout 60 compute-sanitizer --tool $tool --report-api-errors no --error-exitcode 9 "$now" --alone "${checks[@]}" \
        --case "$number" "${options[@]}" >"$results/last.txt" 2>&1
      code=$?
      if [ $code != 0 ] || ! grep -qE 'SUMMARY: 0 (hazards|errors)' "$results/last.txt"; then wrong=1; fi
      echo "rc $code" >>"$out/sanitizers.txt"
      grep -E " checks, |SUMMARY" "$results/last.txt" >>"$out/sanitizers.txt"
    done
  done
  [ $found -gt 0 ] || { echo "$variant: no case takes it" | tee -a "$out/sanitizers.txt"; wrong=1; }
done
grep -c "^rc 0" "$out/sanitizers.txt"
exit $wrong
