#!/usr/bin/env bash
# Builds the pages of docs/ and a few HTML reports of the program into a static site with Debian's mkdocs; a warning is
# an error. `make site` calls it; CPLAB names the program.
#   scripts/site.sh [FOLDER]        the site goes to FOLDER (build/site/html)
set -euo pipefail
cd "$(dirname "$0")/.."

program=${CPLAB:-build/release/cplab}
folder=$(realpath -m "${1:-build/site/html}")
pages=build/site/pages

if ! command -v mkdocs >/dev/null 2>&1; then
  echo "cplab: no mkdocs (Debian: mkdocs)" >&2
  exit 3
fi

rm -rf "$pages"
mkdir -p "$pages/reports"
cp -r docs/. "$pages"
# Links between the pages and what lies beside docs/ are of the repository; in the site CONTRIBUTING.md is a page too.
sed 's#](docs/#](#g' CONTRIBUTING.md >"$pages/CONTRIBUTING.md"
find "$pages" -name '*.md' -exec sed -i -E 's#\]\((\.\./)?\.\./(CONTRIBUTING\.md|scenarios/)#](\1\2#g' {} +
grep -rhoE '\]\(scenarios/[^)#]*' "$pages" | sed 's/^](//' | sort -u | while read -r file; do
  mkdir -p "$pages/$(dirname "$file")"
  cp "$file" "$pages/$file"
done

# NAME, what it shows, and the command; a program without --html has no reports to show.
reports() {
  cat <<'REPORTS'
ring|a causal zigzag ring on 8 GPUs|simulate ring --set problem.sequence=16K
hierarchical|two levels on two nodes of four|simulate families-64 --set parallel.ranks=8 --set problem.sequence=8K --set hardware.node.gpus=4 --set parallel.algorithm=hierarchical --set schedule.inner_ranks=4
race|a plan with a missing edge|check faults/ring --inject ring-slot-reuse
REPORTS
}

{
  echo "# Reports"
  echo
  if "$program" simulate --help | grep -q -e '--html'; then
    echo "What the program writes with \`--html\`, one self-contained page each:"
    echo
    reports | while IFS='|' read -r name what command; do
      code=0
      # shellcheck disable=SC2086  # the command is words
      "$program" $command --html "$pages/reports/$name.html" --quiet >/dev/null || code=$?
      [ "$code" -le 1 ] || { echo "cplab: $command: exit $code" >&2; exit "$code"; }  # 1: what is shown has findings
      echo "- [$what]($name.html): \`cplab $command --html $name.html\`"
    done
  else
    echo "The program that built this site writes no HTML reports."
  fi
} >"$pages/reports/index.md"

mkdocs build --quiet --strict --site-dir "$folder"
echo "$folder/index.html" >&2
