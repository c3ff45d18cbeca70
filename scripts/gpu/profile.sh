#!/bin/bash
# Where the time of our attention kernels goes: pipes, clocks and, per instruction, why warps wait.
# scripts/gpu/profile.sh OUT_DIR [CASE...]   CASE: "B S H D full|causal forward|backward best|deterministic|PEER", a peer
# of attention_peers.py (all kernels of its call; fa4 needs FA4_DIR).
set -uo pipefail
out=$1
shift
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=scripts/gpu/environment.sh disable=SC1091,SC2154
source scripts/gpu/environment.sh
need ncu
[[ $# -gt 0 ]] || set -- "2 8192 16 128 full forward best" "2 8192 16 128 full backward best" \
  "2 8192 32 64 full forward best" "2 8192 32 64 full backward best"
metrics=sm__cycles_elapsed.max,sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed
metrics+=,sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed
metrics+=,l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed
metrics+=,l1tex__data_bank_reads.avg.pct_of_peak_sustained_elapsed
metrics+=,sm__inst_issued.avg.pct_of_peak_sustained_elapsed,lts__t_sectors_op_red.sum,lts__t_sectors.sum
metrics+=,dram__bytes.sum,l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum
number=0
for entry in "$@"; do
  read -r batch sequence heads width mask direction choice <<<"$entry"
  number=$((number + 1))
  report=$results/profile-$number
  kernel=attend_forward
  [[ $direction == backward ]] && kernel=attend_backward
  asked=(--clock-control none --section SourceCounters --section WarpStateStats --metrics "$metrics" -o "$report")
  case $choice in
    best | deterministic | portable)
      timeout -k 2 60 ncu "${asked[@]}" -k regex:"$kernel" --launch-skip 1 --launch-count 1 \
        tiles --serve >"$report.log" 2>&1 <<<"shape $batch $sequence $heads $width $mask
time $direction $choice 1"
      ;;
    *)
      timeout -k 2 120 ncu "${asked[@]}" --profile-from-start off python3 scripts/profile_peer.py "$batch" "$sequence" \
        "$heads" "$width" "$mask" "$direction" "$choice" >"$report.log" 2>&1
      ;;
  esac
  echo "## $entry"
  ncu --import "$report.ncu-rep" --page details --print-details all 2>/dev/null |
    grep -E "cycles_elapsed.max|pct_of_peak|lts__|dram__|bank_conf|kernel<|Duration" | cut -c1-160
  ncu --import "$report.ncu-rep" --page source --csv --print-source sass >"$report.csv" 2>/dev/null
  rm -f "$report.ncu-rep"
done
tar czf "$out/results.tar.gz" -C "$results" .
