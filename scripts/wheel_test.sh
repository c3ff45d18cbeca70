#!/usr/bin/env bash
# Builds the wheel of the Python package and tries it where only it is installed:
#   scripts/wheel_test.sh [--wheel FILE] [PYTHON...]
# The first interpreter (python3) builds it, and each of them tries it in a venv of its own; a wheel that Python 3.12 or
# later built is for all of these (cp312-abi3), one of 3.11 for 3.11 alone. With --wheel that one is tried and none built.
# With CPLAB_CUDA=AUTO it has GPU code where there is nvcc, as that of `pip install .`; by itself it has none. The wheel
# lies in build/wheel-test/dist then. Exit 1 if it is larger than 15 MB without GPU code, is not tagged as one for all that
# it should serve, names a path of this machine, takes a library from outside that it should bring along, or fails a test.
set -euo pipefail
cd "$(dirname "$0")/.."

wheel=
if [ "${1:-}" = --wheel ]; then
  [ -f "${2:-}" ] || { echo "$0: no wheel at '${2:-}'" >&2; exit 2; }
  wheel=$(realpath "$2")
  shift 2
fi
[ $# -gt 0 ] || set -- python3
for python in "$@"; do
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    { echo "$0: $python is no Python of 3.11 or later" >&2; exit 2; }
done
cuda=${CPLAB_CUDA:-OFF}
folder=$PWD/build/wheel-test

# Prints the wheel's path.
build() {
  rm -rf "$folder"
  mkdir -p "$folder"
  "$1" -m venv "$folder/build"
  "$folder/build/bin/pip" wheel -q --no-deps --config-settings "cmake.define.CPLAB_CUDA=$cuda" -w "$folder/dist" . >&2
  ls "$folder"/dist/cplab-*.whl
}

# In $1, a venv that holds the wheel, its libraries are its own.
look_at_libraries() {
  local package outside
  package=$("$1/bin/python3" -c 'import cplab, os; print(os.path.dirname(cplab.__file__))')
  if grep -rlaF "$PWD" "$package" --include='*.so*'; then
    echo "$0: these libraries of the wheel name $PWD" >&2
    exit 1
  fi
  outside=$(ldd "$package"/_cplab*.so "$package"/libcplab_simgrid.so |
    grep -E 'not found|lib(simgrid|ns3-|boost|fmt|gfortran)' | grep -vF "$package" || true)
  if [ -n "$outside" ]; then
    echo "$0: the wheel takes from outside:" >&2
    echo "$outside" >&2
    exit 1
  fi
}

[ -n "$wheel" ] || wheel=$(build "$1")
bytes=$(wc -c <"$wheel")
tag=cp312-abi3
"$1" -c 'import sys; sys.exit(sys.version_info < (3, 12))' || tag=cp311-cp311
case "$wheel" in
  *-$tag-*) ;;
  *) echo "$0: $wheel is not tagged $tag" >&2; exit 1 ;;
esac
module=$("$1" -m zipfile -l "$wheel" | grep -o '^cplab/_cplab[^ ]*')
if [ $tag = cp312-abi3 ] && [ "$module" != cplab/_cplab.abi3.so ]; then
  echo "$0: $wheel is tagged $tag, but $module in it is not of the stable ABI" >&2
  exit 1
fi
if [ "$cuda" = OFF ] && [ "$bytes" -gt 15000000 ]; then
  echo "$0: $wheel has $bytes bytes, more than 15 MB" >&2
  exit 1
fi
for python in "$@"; do
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  venv=$folder/fresh-$version
  rm -rf "$venv"
  "$python" -m venv "$venv"
  "$venv/bin/pip" install -q "$wheel" numpy pandas
  look_at_libraries "$venv"
  (cd tests/python && unset CPLAB_SCENARIOS PYTHONPATH &&
    PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python3" -m unittest discover -p '*_test.py')
  echo "$wheel: $bytes bytes, tried with Python $version in $venv"
done
