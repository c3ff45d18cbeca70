#!/usr/bin/env bash
# Is every C++ and CUDA file laid out as .clang-format says?  tests/tidy/clang_format.sh [--fix]
# Version 14 alone (Debian 12's): another one lays the same style out differently. Exit 77, which CTest
# calls skipped, when it is not there.
set -euo pipefail
cd "$(dirname "$0")/../.."

formatter=""
for candidate in clang-format-14 clang-format; do
  if command -v "$candidate" >/dev/null 2>&1 && "$candidate" --version | grep -q 'version 14\.'; then
    formatter=$candidate
    break
  fi
done
if [ -z "$formatter" ]; then
  echo "skipped: no clang-format 14 (Debian: clang-format-14)"
  exit 77
fi

# What git tracks or would track; without git, what lies in the folders.
kinds=('*.cpp' '*.hpp' '*.cu' '*.cuh')
if ! paths=$(git ls-files --cached --others --exclude-standard -- "${kinds[@]}" 2>/dev/null); then
  paths=$(find . \( -path './build*' -o -path ./.git \) -prune -o -type f \
    \( -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' -o -name '*.cuh' \) -print)
fi
files=()
while IFS= read -r path; do
  if [ -f "$path" ]; then files+=("$path"); fi  # not one that is deleted but still tracked
done <<<"$paths"
if [ ${#files[@]} -eq 0 ]; then
  echo "no C++ file found: the list must be wrong" >&2
  exit 1
fi

if [ "${1:-}" = "--fix" ]; then
  "$formatter" -i -- "${files[@]}"
else
  "$formatter" --dry-run -Werror -- "${files[@]}"
  echo "${#files[@]} files are laid out as .clang-format says"
fi
