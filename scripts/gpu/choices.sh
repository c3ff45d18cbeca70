#!/bin/bash
# What each way of choosing a kernel loses against measuring them all, and what choosing brings a ring.
# scripts/gpu/choices.sh OUT_DIR [SECONDS of the study, default 240]
# Leaves OUT_DIR/study.json, table.md and ring.txt (where there are 2 GPUs also a ring over both); about SECONDS and two
# minutes more.
set -uo pipefail
out=$(realpath -m "$1")
seconds=${2:-240}
mkdir -p "$out"
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
program=${CPLAB:-$(command -v cplab || echo build/release/cplab)}
code=0
python3 scripts/choice_study.py measure "$out/study.json" --program "$program" --seconds "$seconds" || code=1
python3 scripts/choice_study.py table "$out/study.json" >"$out/table.md" || code=1
head -40 "$out/table.md"
choices=$(mktemp -u)
ring() {  # ARGUMENTS: by turns, so that clocks are alike
  local way more
  for way in static heuristic hybrid static heuristic hybrid; do
    more=(--choose "$way")
    [ "$way" != hybrid ] || more+=(--choices "$choices")
    rm -f "$out/ring.json"
    timeout 60 "$program" run ring-h200 "$@" "${more[@]}" --quiet \
      --json "$out/ring.json" >/dev/null || code=1
    echo "$* $way $(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["time_s"])' "$out/ring.json")" |
      tee -a "$out/ring.txt"
  done
}
for tokens in 4K 16K 64K; do
  # shellcheck disable=SC2154
  if [ "$gpus" -ge 2 ]; then
    ring --set problem.sequence=$tokens --set parallel.ranks=2
  fi
  [ $tokens = 64K ] || ring --set problem.sequence=$tokens --set parallel.ranks=8 --ranks-per-gpu 8
done
rm -f "$out/ring.json" "$choices"
exit $code
