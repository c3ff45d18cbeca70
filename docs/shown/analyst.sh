#!/usr/bin/env bash
# A study of 200 points: lengths, ranks and algorithms of one attention on a node of 8 H100.
#   docs/shown/analyst.sh             from a clone that `make demo` has built
set -euo pipefail
cd "$(dirname "$0")/../.."
cplab=${CPLAB:-build/release/cplab}
work=build/shown
mkdir -p "$work"

"$cplab" sweep docs/shown/study.toml --csv "$work/study.csv" --quiet >"$work/study.txt"
echo "# Points: $(tail -n +2 "$work/study.csv" | wc -l)"

echo "# On 8 ranks, by length: the algorithm with the least time, and whose bands reach down into its band"
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
  $column["parallel.ranks"] == 8 {
    tokens = $column["problem.sequence"]; name = $column["algorithm"] "/" $column["placement"]
    if (!(tokens in best) || $column["time_s"] + 0 < best[tokens]) {
      best[tokens] = $column["time_s"] + 0; first[tokens] = name; high[tokens] = $column["high_s"] + 0 }
    points[tokens] = points[tokens] name ":" $column["low_s"] " "
  }
  END { for (tokens = 8192; tokens <= 196608; tokens++) if (tokens in best) {
    n = split(points[tokens], all, " "); others = ""
    for (i = 1; i <= n; i++) { split(all[i], each, ":")
      if (each[1] != first[tokens] && each[2] + 0 <= high[tokens]) others = others " " each[1] }
    printf "%dK %s %.3f ms; may be faster:%s\n", tokens / 1024, first[tokens], 1e3 * best[tokens],
      others == "" ? " none" : others } }' "$work/study.csv"

echo "# Peak on 8 ranks of 192K tokens, GiB"
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
  $column["parallel.ranks"] == 8 && $column["problem.sequence"] == 196608 {
    printf "%s/%s %.2f\n", $column["algorithm"], $column["placement"], $column["peak_bytes"] / 2^30 }' "$work/study.csv"
