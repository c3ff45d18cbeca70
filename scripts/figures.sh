#!/usr/bin/env bash
# Draws every figure of the README and docs anew: runs each plots/*.py from the repository root, with the
# program named by CPLAB. A script writes its own files under docs/figures/.
#   scripts/figures.sh                  all of them
#   scripts/figures.sh --lessons        those of docs/lessons/, which need no matplotlib
#   scripts/figures.sh --find-python    prints the Python that has matplotlib; exit 1 when none has
set -euo pipefail
cd "$(dirname "$0")/.."

# Debian's matplotlib belongs to Debian's own Python, which need not be the first on the path.
find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 /usr/bin/python3; do
    if [ -n "$candidate" ] && "$candidate" -c 'import matplotlib' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

if [ "${1:-}" = "--find-python" ]; then
  find_python
  exit
fi

scripts="plots/*.py"
if [ "${1:-}" = "--lessons" ]; then
  python=python3 scripts="plots/lesson_*.py"
else
  python=$(find_python) || {
    echo "cplab: no Python with matplotlib (Debian: python3-matplotlib)" >&2
    exit 3
  }
fi
export CPLAB=${CPLAB:-build/release/cplab}
export MPLBACKEND=Agg
for script in $scripts; do
  [ -e "$script" ] || { echo "cplab: no plots/*.py" >&2; exit 1; }
  echo "$python $script" >&2
  "$python" "$script"
done
