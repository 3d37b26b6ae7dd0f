#include "libs/nccl.h"

#include <dlfcn.h>

#include <cstring>
#include <string>

#include "launch/device.h"
#include "libs/library.h"

namespace facula::cuda {

namespace {

// Of nccl.h: the same in all versions of NCCL 2.
using Result = int;
using Communicator = struct ncclComm*;
struct Id {
  char bytes[128];
};
enum : int {
  SUCCESS = 0,
  IN_PROGRESS = 7,
  INT8 = 0,
  UINT8 = 1,
  INT32 = 2,
  UINT32 = 3,
  INT64 = 4,
  UINT64 = 5,
  FLOAT16 = 6,
  FLOAT32 = 7,
  FLOAT64 = 8,
  BFLOAT16 = 9,
  SUM = 0,
  PRODUCT = 1,
  MAX = 2,
  MIN = 3,
  MEAN = 4
};
constexpr int kOldest = 21800;  // 2.18: ncclGetLastError and sends within groups are sure to be there

#define FACULA_NCCL(X)                                                                 \
  X(ncclGetVersion, (int*))                                                            \
  X(ncclGetUniqueId, (Id*))                                                            \
  X(ncclCommInitRank, (Communicator*, int, Id, int))                                   \
  X(ncclCommDestroy, (Communicator))                                                   \
  X(ncclCommAbort, (Communicator))                                                     \
  X(ncclCommGetAsyncError, (Communicator, Result*))                                    \
  X(ncclGroupStart, ())                                                                \
  X(ncclGroupEnd, ())                                                                  \
  X(ncclAllReduce, (const void*, void*, size_t, int, int, Communicator, CUstream))     \
  X(ncclReduce, (const void*, void*, size_t, int, int, int, Communicator, CUstream))   \
  X(ncclBroadcast, (const void*, void*, size_t, int, int, Communicator, CUstream))     \
  X(ncclAllGather, (const void*, void*, size_t, int, Communicator, CUstream))          \
  X(ncclReduceScatter, (const void*, void*, size_t, int, int, Communicator, CUstream)) \
  X(ncclSend, (const void*, size_t, int, int, Communicator, CUstream))                 \
  X(ncclRecv, (void*, size_t, int, int, Communicator, CUstream))

struct Library {
#define X(name, arguments) Result(*name) arguments = nullptr;
  FACULA_NCCL(X)
#undef X
  const char* (*ncclGetErrorString)(Result) = nullptr;
  const char* (*ncclGetLastError)(Communicator) = nullptr;
  int version = 0;
  std::string why;  // it cannot be used; else empty
};

void* found(void* opened, const char* name, Library& l) {
  void* const symbol = dlsym(opened, name);
  if (symbol == nullptr) l.why = std::string("libnccl has no ") + name + "; `pip install -U nvidia-nccl-cu13`";
  return symbol;
}

const Library& library() {
  static const Library* const l = [] {
    auto* const made = new Library;
    void* const opened = open_library({"libnccl.so.2", "libnccl.so"}, "nvidia-nccl-cu13", made->why);
    if (opened == nullptr) return made;
#define X(name, arguments) made->name = reinterpret_cast<decltype(made->name)>(found(opened, #name, *made));
    FACULA_NCCL(X)
#undef X
    made->ncclGetErrorString =
        reinterpret_cast<decltype(made->ncclGetErrorString)>(found(opened, "ncclGetErrorString", *made));
    made->ncclGetLastError = reinterpret_cast<decltype(made->ncclGetLastError)>(dlsym(opened, "ncclGetLastError"));
    if (made->ncclGetVersion != nullptr && made->ncclGetVersion(&made->version) == SUCCESS && made->version < kOldest) {
      made->why = "NCCL's version number is " + std::to_string(made->version) + ", and facula needs " +
                  std::to_string(kOldest) + " (2.18) or later; `pip install -U nvidia-nccl-cu13`";
    }
    return made;
  }();
  return *l;
}

int32_t status_of(Result r, const char* doing, Communicator communicator = nullptr) {
  if (r == SUCCESS || r == IN_PROGRESS) return FACULA_OK;
  const Library& l = library();
  std::string text = std::string(doing) + ": " + l.ncclGetErrorString(r);
  if (l.ncclGetLastError != nullptr) {
    if (const char* const more = l.ncclGetLastError(communicator); more != nullptr && *more != '\0') {
      text += std::string(": ") + more;
    }
  }
  return fail(FACULA_DEVICE_ERROR, text);
}

// NCCL's type of a dtype, -1 without one. Complex numbers are two floats, `per` element.
int type_of(int32_t dtype, size_t& per) {
  per = 1;
  switch (dtype) {
    case FACULA_INT8:
      return INT8;
    case FACULA_UINT8:
      return UINT8;
    case FACULA_INT32:
      return INT32;
    case FACULA_UINT32:
      return UINT32;
    case FACULA_INT64:
      return INT64;
    case FACULA_UINT64:
      return UINT64;
    case FACULA_FLOAT16:
      return FLOAT16;
    case FACULA_BFLOAT16:
      return BFLOAT16;
    case FACULA_FLOAT32:
      return FLOAT32;
    case FACULA_FLOAT64:
      return FLOAT64;
    case FACULA_COMPLEX64:
      return per = 2, FLOAT32;
    case FACULA_COMPLEX128:
      return per = 2, FLOAT64;
    default:
      return -1;
  }
}
constexpr int kOps[] = {SUM, PRODUCT, MIN, MAX, MEAN};  // by FACULA_OP_...

// A communicator, and the device that it is of.
struct Joined {
  Communicator communicator = nullptr;
  int32_t index = 0;
};

int32_t version(void*, int32_t* out) {
  const Library& l = library();
  if (!l.why.empty()) return fail(FACULA_NOT_SUPPORTED, l.why);
  *out = l.version;
  return FACULA_OK;
}

int32_t reduces(void*, int32_t op, int32_t dtype) {
  size_t per = 1;
  if (op < 0 || op > FACULA_OP_MEAN || type_of(dtype, per) < 0) return FACULA_NOT_SUPPORTED;
  const bool adds = op == FACULA_OP_SUM || op == FACULA_OP_MEAN;
  if (is_integral(dtype)) return op == FACULA_OP_MEAN ? FACULA_NOT_SUPPORTED : FACULA_OK;
  // Of two floats its least and largest is the one that is no NaN.
  return adds || (op == FACULA_OP_PRODUCT && per == 1) ? FACULA_OK : FACULA_NOT_SUPPORTED;
}

int32_t make_id(void* context, char* id, size_t* size) {
  int32_t unused = 0;
  FACULA_TRY(version(context, &unused));
  if (*size < sizeof(Id)) return fail(FACULA_VALUE_ERROR, "an id of NCCL takes 128 bytes");
  Id made{};
  FACULA_TRY(status_of(library().ncclGetUniqueId(&made), "ncclGetUniqueId"));
  std::memcpy(id, made.bytes, *size = sizeof(Id));
  return FACULA_OK;
}

int32_t join(void* context, int32_t index, const char* id, size_t size, int32_t ranks, int32_t rank, void** out) {
  int32_t unused = 0;
  FACULA_TRY(version(context, &unused));
  if (size != sizeof(Id)) return fail(FACULA_VALUE_ERROR, "an id of NCCL has 128 bytes");
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  Id given{};
  std::memcpy(given.bytes, id, sizeof(Id));
  Communicator made = nullptr;
  FACULA_TRY(status_of(library().ncclCommInitRank(&made, ranks, given, rank), "ncclCommInitRank"));
  *out = new Joined{made, index};
  return FACULA_OK;
}

Result start(const FaculaCollective& c, Communicator communicator, CUstream stream, const char*& doing) {
  const Library& l = library();
  size_t per = 1;
  int type = type_of(c.dtype, per);
  if (c.kind != FACULA_ALL_REDUCE && c.kind != FACULA_REDUCE && c.kind != FACULA_REDUCE_SCATTER) {
    type = INT8;  // it moves bytes
    per = static_cast<size_t>(itemsize(c.dtype));
  }
  const size_t n = c.count * per;
  const int op = kOps[c.op];
  switch (c.kind) {
    case FACULA_ALL_REDUCE:
      return doing = "ncclAllReduce", l.ncclAllReduce(c.src, c.dst, n, type, op, communicator, stream);
    case FACULA_REDUCE:
      return doing = "ncclReduce", l.ncclReduce(c.src, c.dst, n, type, op, c.peer, communicator, stream);
    case FACULA_BROADCAST:
      return doing = "ncclBroadcast", l.ncclBroadcast(c.src, c.dst, n, type, c.peer, communicator, stream);
    case FACULA_ALL_GATHER:
      return doing = "ncclAllGather", l.ncclAllGather(c.src, c.dst, n, type, communicator, stream);
    case FACULA_REDUCE_SCATTER:
      return doing = "ncclReduceScatter", l.ncclReduceScatter(c.src, c.dst, n, type, op, communicator, stream);
    case FACULA_SEND:
      return doing = "ncclSend", l.ncclSend(c.src, n, type, c.peer, communicator, stream);
    default:
      return doing = "ncclRecv", l.ncclRecv(c.dst, n, type, c.peer, communicator, stream);
  }
}

int32_t run(void* context, void* communicator, const FaculaCollective* calls, int32_t ncalls, void* stream) {
  const Joined& joined = *static_cast<Joined*>(communicator);
  for (int32_t i = 0; i < ncalls; ++i) {
    const FaculaCollective& c = calls[i];
    const bool moves = c.kind == FACULA_BROADCAST || c.kind == FACULA_ALL_GATHER || c.kind >= FACULA_SEND;
    if (!moves) FACULA_TRY(reduces(context, c.op, c.dtype));
  }
  const Device* device = nullptr;
  FACULA_TRY(enter(joined.index, &device));
  const Library& l = library();
  const char* doing = "";
  const auto at = static_cast<CUstream>(stream);
  if (ncalls == 1) return status_of(start(calls[0], joined.communicator, at, doing), doing, joined.communicator);
  FACULA_TRY(status_of(l.ncclGroupStart(), "ncclGroupStart"));
  Result failed = SUCCESS;
  for (int32_t i = 0; i < ncalls && failed == SUCCESS; ++i) failed = start(calls[i], joined.communicator, at, doing);
  const Result ended = l.ncclGroupEnd();  // whatever came before
  if (failed != SUCCESS) return status_of(failed, doing, joined.communicator);
  return status_of(ended, "ncclGroupEnd", joined.communicator);
}

int32_t query(void*, void* communicator) {
  const Joined& joined = *static_cast<Joined*>(communicator);
  Result now = SUCCESS;
  FACULA_TRY(status_of(library().ncclCommGetAsyncError(joined.communicator, &now), "ncclCommGetAsyncError"));
  return status_of(now, "a collective failed", joined.communicator);
}

// The structure stays: another thread may be in a call with it.
int32_t leave(void*, void* communicator) {
  const Joined& joined = *static_cast<Joined*>(communicator);
  const Device* device = nullptr;
  FACULA_TRY(enter(joined.index, &device));
  return status_of(library().ncclCommDestroy(joined.communicator), "ncclCommDestroy");
}

int32_t abort(void*, void* communicator) {
  const Joined& joined = *static_cast<Joined*>(communicator);
  const Device* device = nullptr;
  FACULA_TRY(enter(joined.index, &device));
  return status_of(library().ncclCommAbort(joined.communicator), "ncclCommAbort");
}

}  // namespace

const FaculaCollectives nccl{"nccl", version, reduces, make_id, join, run, query, leave, abort};

}  // namespace facula::cuda
