#!/usr/bin/env python3
"""One call of another library's attention between cudaProfilerStart and Stop, for scripts/gpu/profile.sh.

    scripts/profile_peer.py B S H D full|causal forward|backward PEER        PEER: of attention_peers.py
"""
import sys

import torch

from attention_peers import PEERS
from attention_problem import batch


def main(arguments):
    if len(arguments) != 7 or arguments[6] not in PEERS:
        sys.exit(__doc__.strip() + "\nlegal: " + ", ".join(PEERS))
    problem, mask, direction, name = batch(*(int(x) for x in arguments[:4])), *arguments[4:]
    call = PEERS[name](problem, mask == "causal")[0 if direction == "forward" else 1]
    for _ in range(2):
        call()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    call()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


if __name__ == "__main__":
    main(sys.argv[1:])
