#!/usr/bin/env bash
# Makes build/python, a venv in which CMake finds what the Python module is built and tested with (nanobind, NumPy,
# pandas), unless it is there: scripts/python_venv.sh [pip's arguments for more packages]
# Exit 0 also where there is no registry to fetch them from; one line then says what is left out.
set -euo pipefail
cd "$(dirname "$0")/.."

left_out() {
  rm -rf build/python
  echo "cplab: without the Python module: $1" >&2
  exit 0
}

command -v python3 >/dev/null 2>&1 || left_out "there is no python3"
if ! [ -x build/python/bin/python3 ]; then
  mkdir -p build
  python3 -m venv build/python >build/python_venv.log 2>&1 || left_out "python3 has no venv (Debian: python3-venv)"
fi
if ! build/python/bin/python3 -c 'import nanobind, numpy, pandas' 2>/dev/null || [ $# -gt 0 ]; then
  timeout 120 build/python/bin/pip install -q --disable-pip-version-check --retries 1 --timeout 10 \
    nanobind numpy pandas "$@" >>build/python_venv.log 2>&1 || left_out "the registry of Python does not answer"
fi
