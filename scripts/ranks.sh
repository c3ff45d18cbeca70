#!/usr/bin/env bash
# Runs COMMAND as N processes of this host, with the variables that torchrun gives: scripts/ranks.sh N COMMAND... A
# launch token (CPLAB_TOKEN) is made up for them, unless there is one. Output is passed through unchanged. When one
# process fails, or a signal comes, the others get a second to report why they end, then SIGTERM, two seconds later
# SIGKILL, each with its child processes. The exit code is that of the first process that failed.
set -euo pipefail

usage() {
  echo "usage: $0 N COMMAND..." >&2
  exit 2
}

[ $# -ge 2 ] || usage
world=$1
shift
[[ $world =~ ^[1-9][0-9]{0,3}$ ]] || usage

answers() {
  (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}
# MASTER_PORT and the one above it, where the processes meet; below the ports that the kernel hands out.
while :; do
  port=$((20000 + RANDOM % 6000 * 2))
  if ! answers "$port" && ! answers $((port + 1)); then break; fi
done

# A connection that does not present the token gets no rank; other users cannot read these processes' environment.
if [ -z "${CPLAB_TOKEN:-}" ]; then
  CPLAB_TOKEN=$(od -An -v -N16 -tx1 /dev/urandom | tr -d ' \n')
  [ ${#CPLAB_TOKEN} -eq 32 ] || { echo "$0: /dev/urandom gave no launch token" >&2; exit 3; }
fi
export CPLAB_TOKEN

declare -A rank_of=() # of the processes that run, by process id; each is the leader of its own group
signal_to_all() {
  local pid
  for pid in "${!rank_of[@]}"; do kill -"$1" -- "-$pid" 2>/dev/null || true; done
}
any_left() {
  local pid
  for pid in "${!rank_of[@]}"; do
    if kill -0 -- "-$pid" 2>/dev/null; then return 0; fi
  done
  return 1
}
# Waits at most $1 tenths of a second for all to end.
wait_tenths() {
  local left=$1
  while [ "$left" -gt 0 ] && any_left; do
    sleep 0.1
    left=$((left - 1))
  done
}
stop_all() {
  trap '' INT TERM HUP
  wait_tenths "$1"
  signal_to_all TERM
  wait_tenths 20
  signal_to_all KILL
}
trap 'stop_all 0; wait 2>/dev/null; exit 130' INT
trap 'stop_all 0; wait 2>/dev/null; exit 143' TERM
trap 'stop_all 0; wait 2>/dev/null; exit 129' HUP

# Each job gets its own process group; if this script is killed, so are its processes (setpriv).
set -m
guard=()
if command -v setpriv >/dev/null; then guard=(setpriv --pdeathsig KILL --); fi
for ((rank = 0; rank < world; ++rank)); do
  RANK=$rank WORLD_SIZE=$world LOCAL_RANK=$rank LOCAL_WORLD_SIZE=$world \
    MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
    TORCHELASTIC_RUN_ID="ranks.sh-$$-$port" TORCHELASTIC_RESTART_COUNT=0 \
    "${guard[@]}" "$@" </dev/null &
  rank_of[$!]=$rank
done
set +m # the groups stay; bash no longer reports on its jobs

result=0
while [ ${#rank_of[@]} -gt 0 ]; do
  code=0
  wait -n -p pid "${!rank_of[@]}" 2>/dev/null || code=$?
  if [ "$code" -eq 0 ]; then
    kill -KILL -- "-$pid" 2>/dev/null || true # what it started and left running
    unset "rank_of[$pid]"
    continue
  fi
  result=$code
  echo "ranks.sh: rank ${rank_of[$pid]} ended with code $code" >&2
  stop_all 10
  wait 2>/dev/null || true
  break
done
exit "$result"
