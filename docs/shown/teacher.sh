#!/usr/bin/env bash
# A lesson in class, from a clone to the picture: the ring of four ranks (docs/lessons/03-ring.md).
#   docs/shown/teacher.sh                        in a clone that `make demo` has built
#   docs/shown/teacher.sh REPOSITORY FOLDER      clones into FOLDER and builds there first (minutes)
set -euo pipefail
if [ $# -eq 2 ]; then
  git clone --quiet "$1" "$2"
  cd "$2"
  make demo >/dev/null
else
  cd "$(dirname "$0")/../.."
fi
cplab=${CPLAB:-build/release/cplab}

echo "# Who holds whose keys: rank 2 of 4, the messages of the forward"
"$cplab" show faults/ring --set problem.direction=forward --rank 2 --csv - --quiet |
  grep ',exchange,' | cut -d, -f1,2,8- | tr -d '"'

echo "# Is everybody equally busy? FLOPs of the ranks, contiguous and zigzag"
for placement in contiguous zigzag; do
  "$cplab" check faults/ring --set problem.direction=forward --set parallel.placement=$placement --json - --quiet |
    grep flops
done

echo "# One wait forgotten: the plan is wrong, and a run does not show it"
{ COLUMNS=999 "$cplab" verify faults/ring --inject ring-slot-reuse --quiet || true; } | grep -E '^race  rank 0| out |^wrong' |
  cut -c1-100

echo "# The picture for the board"
mkdir -p build/shown
CPLAB="$cplab" CPLAB_FIGURES=build/shown python3 plots/lesson_masks.py
ls build/shown/lesson-ring.svg
