// NCCL's functions, each a call into the library that this process has: where another framework has brought
// one (PyTorch does), that one, because two NCCLs in a process do not know of each other's GPUs' memory and
// connections; else the libnccl.so.2 that the loader finds, or that the build found. So nothing is linked
// with NCCL, and a machine without it runs everything that sends nothing over it.
#include <dlfcn.h>
#include <nccl.h>

#include <string>

namespace {

struct Library {
  void* handle = nullptr;
  std::string error;  // why there is none
};

const Library& library() {
  static const Library loaded = [] {
    Library found;
    // A library of this name that the process has is taken, wherever it lies.
    for (const char* name : {"libnccl.so.2", CPLAB_NCCL_LIBRARY}) {
      found.handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (found.handle != nullptr) return found;
      if (const char* reason = dlerror(); found.error.empty() && reason != nullptr) found.error = reason;
    }
    found.error = "no NCCL can be loaded: " + found.error + "; schedule.transport=copy runs without it";
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
