#!/usr/bin/env bash
# scripts/build.sh with a fake cmake that only prints: how far the build is without a terminal, and what a failure
# shows.
set -uo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/scripts" "$work/bin"
cp "$1" "$work/scripts/build.sh"
cat >"$work/bin/cmake" <<'FAKE'
#!/usr/bin/env bash
if [ "$1" != --build ]; then
  echo "-- cplab: found a thing"
  exit
fi
for step in $(seq "$STEPS"); do
  if [ "$step" = "$BREAKS" ]; then
    printf 'FAILED: thing.o\nerror: no such thing\n'
    exit 1
  fi
  echo "[$step/$STEPS] Building thing $step"
done
FAKE
chmod +x "$work/bin/cmake"
failed=0
expect() {  # CODE LINES PATTERN, of STEPS steps of which number BREAKS fails
  local output code lines
  output=$(STEPS=$4 BREAKS=$5 PATH="$work/bin:$PATH" "$work/scripts/build.sh" release 2>&1)
  code=$?
  lines=$(wc -l <<<"$output")
  if [ "$code" -ne "$1" ] || [ "$lines" -ne "$2" ] || ! grep -q "$3" <<<"$output"; then
    echo "expected $1, $2 lines and '$3', got $code, $lines lines: $output"
    failed=1
  fi
}
expect 0 12 '^cplab: build step 40 of 200 after [0-9]* s: Building thing 40$' 200 0
expect 0 4 '^cplab: build step 3 of 3 ' 3 0
expect 0 1 '^cplab: found a thing$' 0 0
expect 1 6 '^error: no such thing$' 200 41
exit $failed
