#!/usr/bin/env bash
# What an engineer does with work of their own: tensors verified, an algorithm as a plan, a trace beside a prediction.
#   docs/shown/engineer.sh            from a clone that `make demo` has built
set -euo pipefail
cd "$(dirname "$0")/../.."
cplab=${CPLAB:-build/release/cplab}
work=build/shown
mkdir -p "$work"
small=(faults/ring --set problem.direction=forward)

echo "# Own tensors: an attention in plain Python against the reference in double"
"$cplab" verify "${small[@]}" --save "$work/run" --quiet >/dev/null
docs/shown/own_attention.py "$work/run" "$work/mine"
"$cplab" verify "${small[@]}" --inputs "$work/run" --against "$work/mine" --quiet | tail -1

echo "# The same with a bug: one query head reads another key head"
docs/shown/own_attention.py "$work/run" "$work/bug" --bug
{ COLUMNS=999 "$cplab" verify "${small[@]}" --inputs "$work/run" --against "$work/bug" --quiet || true; } | sed -n 2p |
  fold -s -w 100

echo "# An own algorithm: the ring turned round, checked, simulated, verified"
machine=(--set problem.mask=full)
"$cplab" show "${small[@]}" "${machine[@]}" --json - --quiet | docs/shown/own_plan.py >"$work/left.json"
"$cplab" check --plan "$work/left.json" --quiet | sed -n 2p
"$cplab" simulate --plan "$work/left.json" --hardware h100x8 --quiet | grep '^on '
"$cplab" verify --plan "$work/left.json" --quiet | tail -1

echo "# The same with a mistake: rank 0 alone turns round"
"$cplab" show "${small[@]}" "${machine[@]}" --json - --quiet |
  sed '/"id": "0\/forward\/2"/{s/"peer": 1/"peer": 9/;s/"peer": 3/"peer": 1/;s/"peer": 9/"peer": 3/}' >"$work/wrong.json"
{ COLUMNS=999 "$cplab" check --plan "$work/wrong.json" --quiet || true; } | sed -n 2p | cut -c1-100

echo "# An own trace: a profile of PyTorch's beside the prediction of the same attention"
one=(ring --set parallel.ranks=1 --set problem.sequence=8K --set problem.heads=16 --set problem.kv_heads=16
  --set problem.mask=full --set problem.direction=forward)
"$cplab" simulate "${one[@]}" --operations --json "$work/predicted.json" --quiet >/dev/null
"$cplab" compare "$work/predicted.json" docs/shown/trace.json --quiet | grep -E '^(rank|class|attend) ' | cut -c1-100
