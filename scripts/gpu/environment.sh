#!/bin/bash
# To be sourced on a GPU machine: finds the packed libraries and NCCL, and keeps NVLink multicast off.
pack=${CPLAB_PACK:-build/pack}
nccl=$(python3 -c 'import nvidia.nccl as n; print(list(n.__path__)[0] + "/lib")' 2>/dev/null || true)
export LD_LIBRARY_PATH="$pack/lib:${nccl:-}:${LD_LIBRARY_PATH:-}"
export PATH="$PWD/$pack:$PATH"
export CPLAB_SCENARIOS="$PWD/scenarios"
export NCCL_NVLS_ENABLE=0
