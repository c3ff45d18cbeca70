#!/usr/bin/env bash
# Are the kernels of two builds the same, instruction for instruction? For changes that only move or rename source.
#
#   scripts/same_device_code.sh OLD_DIR NEW_DIR      folders with .o files of .cu files, searched through
#
# Each kernel is disassembled (cuobjdump -sass). Left out are names, because renaming changes them, which file a kernel
# came from, and blanks, which cuobjdump pads by the longest line of a file. What remains, architecture, addresses,
# instructions and their encodings, is compared as a set in which a listing may occur several times. Exit 1 if the sets
# differ (the kernels that only one side has are named), 2 if a folder has no kernels, 3 without cuobjdump (part of the
# CUDA toolkit, and a package of its own: nvidia-cuda-cuobjdump).
set -euo pipefail
command -v cuobjdump >/dev/null || { echo "same_device_code.sh: no cuobjdump on the PATH" >&2; exit 3; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

listings() {  # FOLDER NAME: a line "hash architecture instructions kernel" for each kernel, sorted, into $work/NAME
  local object
  mkdir "$work/$2.parts"
  find "$1" -name '*.o' | sort | while read -r object; do cuobjdump -sass "$object" 2>/dev/null || true; done |
    awk -v parts="$work/$2.parts" '
      /^\tcode for / { architecture = $3 }
      /^\t\tFunction : / {
        if (file != "") close(file)
        file = sprintf("%s/%06d", parts, ++count)
        print $3 > (file ".name")
        close(file ".name")
        print architecture > file
        next
      }
      /^Fatbin / { if (file != "") close(file); file = "" }
      file != "" && NF > 0 && !/^\t\.+$/ { $1 = $1; print > file }'
  local part
  for part in "$work/$2.parts/"*.name; do
    [[ -e $part ]] || { echo "same_device_code.sh: no kernels in $1" >&2; exit 2; }
    part=${part%.name}
    echo "$(md5sum <"$part" | cut -d' ' -f1) $(head -1 "$part") $(grep -c '^\/\*[0-9a-f]*\*\/ .*;' "$part") \
$(cat "$part.name")"
  done | sort >"$work/$2"
}

listings "$1" old
listings "$2" new
awk '{ kernels += 1; instructions += $3 } END { print "old:", kernels, "kernels,", instructions, "instructions" }' \
  "$work/old"
awk '{ kernels += 1; instructions += $3 } END { print "new:", kernels, "kernels,", instructions, "instructions" }' \
  "$work/new"
# Listings that occur more often on one side, with the kernels they belong to.
only() {  # SIDE OTHER
  awk -v side="$1" 'NR == FNR { have[$1 " " $2] += 1; next }
    have[$1 " " $2]-- <= 0 { print "only in " side ": " $2 ", " $3 " instructions: " $4; found = 1 }
    END { exit found }' "$work/$2" "$work/$1"
}
differ=0
only old new || differ=1
only new old || differ=1
[[ $differ -eq 1 ]] || echo "the same instructions"
exit $differ
