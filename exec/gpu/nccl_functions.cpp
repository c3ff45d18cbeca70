// NCCL's functions, each a call into the library that this process has: where another framework has brought
// one (PyTorch does), that one, because two NCCLs in a process do not know of each other's connections; else
// the one that the build found, or the libnccl.so.2 that the loader finds. So nothing is linked with NCCL,
// and a machine without it runs everything that sends nothing over it. A framework that is linked with NCCL
// as a static library has none to share.
#include <dlfcn.h>
#include <nccl.h>

#include <string>

#include "exec/gpu/nccl_world.hpp"

namespace {

constexpr const char* soname = "libnccl.so.2";

struct Library {
  void* handle = nullptr;
  std::string error;  // why there is none
};

const Library& library() {
  static const Library loaded = [] {
    Library found;
    found.handle = dlopen(soname, RTLD_NOW | RTLD_NOLOAD);
    for (const char* name : {CPLAB_NCCL_LIBRARY, soname}) {
      if (found.handle == nullptr) found.handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (found.handle != nullptr) return found;
    const char* reason = dlerror();
    found.error = std::string("no NCCL can be loaded: ") + (reason == nullptr ? soname : reason);
    return found;
  }();
  return loaded;
}

// The function of that name, of the type of `declared`; null without the library, or where it is too old.
template <class Function>
Function* find(const char* name, Function*) {
  return library().handle == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library().handle, name));
}

}  // namespace

bool cplab::nccl_is_loaded() {
  return dlopen(soname, RTLD_NOW | RTLD_NOLOAD) != nullptr;
}

#define FORWARD(name, parameters, arguments)                           \
  ncclResult_t name parameters {                                       \
    static const auto function = find(#name, &name);                   \
    return function == nullptr ? ncclSystemError : function arguments; \
  }

extern "C" {

FORWARD(ncclGetVersion, (int* version), (version))
FORWARD(ncclGetUniqueId, (ncclUniqueId * id), (id))
FORWARD(ncclCommInitRank, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank), (comm, ranks, id, rank))
FORWARD(ncclCommInitRankConfig,
        (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config),
        (comm, ranks, id, rank, config))
FORWARD(ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t* config),
        (comm, color, key, part, config))
FORWARD(ncclCommDestroy, (ncclComm_t comm), (comm))
FORWARD(ncclCommAbort, (ncclComm_t comm), (comm))
FORWARD(ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t* error), (comm, error))
FORWARD(ncclGroupStart, (), ())
FORWARD(ncclGroupEnd, (), ())
FORWARD(ncclSend,
        (const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream),
        (from, count, type, peer, comm, stream))
FORWARD(ncclRecv,
        (void* into, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream),
        (into, count, type, peer, comm, stream))
FORWARD(ncclAllGather,
        (const void* from, void* into, size_t count, ncclDataType_t type, ncclComm_t comm,
         cudaStream_t stream),
        (from, into, count, type, comm, stream))
FORWARD(ncclAllReduce,
        (const void* from, void* into, size_t count, ncclDataType_t type, ncclRedOp_t sum, ncclComm_t comm,
         cudaStream_t stream),
        (from, into, count, type, sum, comm, stream))
FORWARD(ncclReduce,
        (const void* from, void* into, size_t count, ncclDataType_t type, ncclRedOp_t sum, int root,
         ncclComm_t comm, cudaStream_t stream),
        (from, into, count, type, sum, root, comm, stream))
FORWARD(ncclReduceScatter,
        (const void* from, void* into, size_t count, ncclDataType_t type, ncclRedOp_t sum, ncclComm_t comm,
         cudaStream_t stream),
        (from, into, count, type, sum, comm, stream))

const char* ncclGetErrorString(ncclResult_t code) {
  static const auto function = find("ncclGetErrorString", &ncclGetErrorString);
  return function == nullptr ? library().error.c_str() : function(code);
}

const char* ncclGetLastError(ncclComm_t comm) {
  static const auto function = find("ncclGetLastError", &ncclGetLastError);
  return function == nullptr ? "" : function(comm);
}

}  // extern "C"
