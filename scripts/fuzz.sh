#!/usr/bin/env bash
# Builds the fuzz targets (tests/fuzz) with clang and lets each search for a while: scripts/fuzz.sh [SECONDS [TARGET ...]]
# New inputs are kept in build/fuzz/corpus/TARGET, those that break something in build/fuzz/found: mend the cause and put
# the input into tests/fuzz/corpus/TARGET, where every test run replays it. Exit 1: something was found.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then targets=(choices hardware npy plan scenario wire); fi

clang=
for name in clang++-14 clang++ clang++-{15,16,17,18,19,20}; do
  if command -v "$name" >/dev/null 2>&1 &&
    echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    "$name" -x c++ -fsanitize=fuzzer,address -o /dev/null - 2>/dev/null; then
    clang=$name
    break
  fi
done
if [ -z "$clang" ]; then
  echo "cplab: no clang with libFuzzer: nothing is searched; the corpora are replayed by make test" >&2
  exit 0
fi

mkdir -p build/fuzz/found
log=build/configure-fuzz.log
if ! cmake --preset fuzz -D CMAKE_CXX_COMPILER="$clang" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
cmake --build --preset fuzz --target "${targets[@]/#/fuzz_}"

failed=0
for target in "${targets[@]}"; do
  corpus=build/fuzz/corpus/$target
  mkdir -p "$corpus"
  log=build/fuzz/$target.log
  longest=4096
  if [ "$target" = plan ]; then longest=32768; fi
  echo "cplab: $target for $seconds s" >&2
  if ! "build/fuzz/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -max_len="$longest" -timeout=60 \
    -rss_limit_mb=3000 -artifact_prefix="build/fuzz/found/$target-" "$corpus" "tests/fuzz/corpus/$target" \
    >"$log" 2>&1; then
    failed=1
    tail -n 30 "$log" >&2
  fi
done
exit "$failed"
