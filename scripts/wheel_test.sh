#!/usr/bin/env bash
# Builds the wheel of the Python package and tries it where only it is installed: scripts/wheel_test.sh [PYTHON]
# With CPLAB_CUDA=AUTO it has GPU code where there is nvcc, as that of `pip install .`; by itself it has none. The wheel lies
# in build/wheel-test/dist then. Exit 1 if it is larger than 15 MB without GPU code, names a path of this machine, takes
# a library from outside that it should bring along, or fails a test.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${1:-python3}
cuda=${CPLAB_CUDA:-OFF}
folder=$PWD/build/wheel-test
rm -rf "$folder"
mkdir -p "$folder"
"$python" -m venv "$folder/build"
"$folder/build/bin/pip" wheel -q --no-deps --config-settings "cmake.define.CPLAB_CUDA=$cuda" -w "$folder/dist" .
wheel=$(ls "$folder"/dist/cplab-*.whl)
bytes=$(wc -c <"$wheel")

"$python" -m venv "$folder/fresh"
"$folder/fresh/bin/pip" install -q "$wheel" numpy pandas
package=$("$folder/fresh/bin/python3" -c 'import cplab, os; print(os.path.dirname(cplab.__file__))')
if [ "$cuda" = OFF ] && [ "$bytes" -gt 15000000 ]; then
  echo "$0: $wheel has $bytes bytes, more than 15 MB" >&2
  exit 1
fi
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
cd tests/python
unset CPLAB_SCENARIOS PYTHONPATH
PYTHONDONTWRITEBYTECODE=1 "$folder/fresh/bin/python3" -m unittest discover -p '*_test.py'
echo "$wheel: $bytes bytes, tried in $folder/fresh"
