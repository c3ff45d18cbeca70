#!/bin/bash
# Predictions beside the runs that several.sh or single.sh brought back, as a markdown table:
#   scripts/gpu/compare.sh RESULTS HARDWARE LINK [options of plots/compare.py]
# RESULTS: their folder, or the campaign that scripts/campaign.py packed from it.
# HARDWARE: a hardware file as a scenario names it; LINK: copy, nccl, or copy+nccl for one table of both. CPLAB names
# the program. Simulates each run's scenario, compares, prints; peers' results in RESULTS join.
set -euo pipefail
results=$(realpath "$1")
hardware=$2
links=$3
shift 3
export CPLAB=${CPLAB:-build/release/cplab}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$(dirname "$0")/../.."
if [ -f "$results" ]; then
  scripts/campaign.py unpack "$results" "$work/runs"
  results=$work/runs
fi
for link in ${links/+/ }; do
  mkdir -p "$work/$link"
  for run in "$results"/run-*-"$link".json; do
    name=$(basename "$run" .json)
    IFS=- read -r _ tokens ranks _ <<<"$name"
    scripts/gpu/prediction.sh "$run" "$hardware" "$work/predicted.json"
    "$CPLAB" compare "$work/predicted.json" "$run" --quiet >/dev/null \
      --json "$work/$link/compare-S$((${tokens%K} * 1024))-$ranks.json"
  done
done
peers=()
for peer in "$results"/peer-P*.json; do
  if [ -f "$peer" ]; then peers+=("$peer"); fi
done
beside=()
if [[ $links == *+* ]]; then beside=(--beside "$work/${links#*+}"); fi
python3 plots/compare.py "$work/${links%+*}" "${beside[@]}" ${peers:+--peers "${peers[@]}"} "$@"
