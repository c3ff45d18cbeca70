#!/usr/bin/env bash
# Executes the analyst's notebook, analyst.ipynb, in a venv of its own (build/notebook), and holds the texts of its outputs
# to those that are committed:
#   docs/shown/notebook.sh [--write] [WHEEL]
# The package is that of the clone (build/release/python, which `make build` makes after scripts/python_venv.sh), or the
# WHEEL. PYTHON names the interpreter: one of the wheel's, by itself that of the clone's module. --write renews the file.
# Exit 1: other texts, or a cell that fails; exit 3: no package, or no registry of Python that answers.
set -euo pipefail
from=$PWD
cd "$(dirname "$0")/../.."

lacking() {
  echo "cplab: the notebook is not executed: $1" >&2
  exit 3
}

write=()
if [ "${1:-}" = --write ]; then
  write=(--write)
  shift
fi
if [ $# -gt 1 ] || [[ "${1:-}" == -* ]]; then
  echo "usage: docs/shown/notebook.sh [--write] [WHEEL]" >&2
  exit 2
fi
wheel=${1:+$(cd "$from" && realpath -m "$1")}
package=${CPLAB_PACKAGE:-build/release/python}
python=python3
[ -n "$wheel" ] || ! [ -x build/python/bin/python3 ] || python=build/python/bin/python3
python=${PYTHON:-$python}
python=${python%% *}  # the first, as of make wheel-test

if [ -n "$wheel" ]; then
  [ -f "$wheel" ] || lacking "there is no wheel $wheel"
elif ! ls "$package"/cplab/_cplab*.so >/dev/null 2>&1; then
  lacking "$package holds no package cplab (scripts/python_venv.sh and make build make it; or name a wheel)"
fi
venv=build/notebook
rm -rf "$venv"
mkdir -p build
"$python" -m venv "$venv" || lacking "$python makes no venv (Debian: python3-venv)"
fetch() {
  timeout 600 build/notebook/bin/pip install -q --disable-pip-version-check --retries 1 --timeout 20 "$@"
}
fetch nbconvert ipykernel pandas matplotlib || lacking "the registry of Python does not answer"
unset PYTHONPATH CPLAB_SCENARIOS
if [ -n "$wheel" ]; then
  fetch --no-deps "$wheel" || lacking "$wheel is not for $("$venv/bin/python3" --version)"
else
  PYTHONPATH=$(realpath "$package")
  export PYTHONPATH
fi
# Kernels, settings and start-up files of the user's own Jupyter stay out of it.
home=$PWD/$venv/home
mkdir -p "$home"
HOME=$home JUPYTER_PREFER_ENV_PATH=1 "$venv/bin/python3" docs/shown/notebook.py "${write[@]}"
[ ${#write[@]} -gt 0 ] || echo "analyst.ipynb: every cell says what is committed (${wheel:-$package})"
