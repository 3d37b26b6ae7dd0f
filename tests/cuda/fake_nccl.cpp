// An NCCL for tests without GPUs: processes put what they send into files of one folder, FAKE_NCCL_DIR, and
// wait for those of the others. The types and operations are those of nccl.h, with real arithmetic.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

enum Result { kSuccess = 0, kSystem = 2, kInvalid = 4, kUsage = 5, kRemote = 6 };

struct Id {
  char bytes[128];
};
struct Comm {
  std::string name;
  int ranks, rank;
  int collectives = 0;
  std::map<std::string, int> messages;  // by direction
  std::atomic<bool> aborted{false};
};
struct Op {
  std::string what;  // as noted: "AllReduce count type op"
  const void* src;
  void* dst;
  size_t count;
  int type, op, root;
  Comm* comm;
};

std::string notes, last_error;
std::vector<Op> grouped;
int depth = 0, calls = 0;

int number_of(const char* variable) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : 0;
}

size_t size_of(int type) {
  static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return sizes[type];
}

// ---- files ----
std::string path_of(const std::string& name) { return std::string(std::getenv("FAKE_NCCL_DIR")) + "/" + name; }

void post(const std::string& name, const std::string& head, const void* data, size_t bytes) {
  const std::string path = path_of(name);
  std::ofstream(path + ".part", std::ios::binary) << head << '\n'
                                                  << std::string(static_cast<const char*>(data), bytes);
  std::rename((path + ".part").c_str(), path.c_str());
}

bool take(Comm* comm, const std::string& name, const std::string& head, std::string& data) {
  const std::string path = path_of(name);
  while (access(path.c_str(), R_OK) != 0) {
    if (comm->aborted) return last_error = "aborted", false;
    usleep(500);
  }
  std::ifstream file(path, std::ios::binary);
  std::string theirs;
  std::getline(file, theirs);
  data.assign(std::istreambuf_iterator<char>(file), {});
  if (theirs != head) return last_error = "the other called " + theirs + ", this one " + head, false;
  return true;
}

// ---- arithmetic ----
float from_half(uint16_t h) {
  const uint32_t sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31, fraction = h & 1023;
  if (exponent == 0) return (sign ? -1.0f : 1.0f) * static_cast<float>(fraction) / 16777216.0f;
  const uint32_t bits = sign | (exponent == 31 ? 255u << 23 : (exponent + 112) << 23) | fraction << 13;
  float f;
  return std::memcpy(&f, &bits, 4), f;
}
uint16_t to_half(float f) {  // of numbers that a half has exactly
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  const uint32_t exponent = (bits >> 23) & 255;
  if (exponent < 113) return static_cast<uint16_t>(bits >> 16 & 0x8000);
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | (exponent - 112) << 10 | (bits >> 13 & 1023));
}
struct Half {
  uint16_t bits;
  operator float() const { return from_half(bits); }
  Half& operator=(float f) { return bits = to_half(f), *this; }
};
struct BFloat16 {
  uint16_t bits;
  operator float() const {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float f;
    return std::memcpy(&f, &wide, 4), f;
  }
  BFloat16& operator=(float f) {
    uint32_t wide;
    std::memcpy(&wide, &f, 4);
    return bits = static_cast<uint16_t>(wide >> 16), *this;
  }
};

template <typename T, typename C>
void fold(void* into, const void* more, size_t n, int op) {
  T* const a = static_cast<T*>(into);
  const T* const b = static_cast<const T*>(more);
  for (size_t i = 0; i < n; ++i) {
    const C x = static_cast<C>(a[i]), y = static_cast<C>(b[i]);
    a[i] = op == 1 ? static_cast<C>(x * y) : op == 2 ? (x > y ? x : y) : op == 3 ? (x < y ? x : y) : static_cast<C>(x + y);
  }
}
template <typename T, typename C>
void divide(void* data, size_t n, int by) {
  T* const a = static_cast<T*>(data);
  for (size_t i = 0; i < n; ++i) a[i] = static_cast<C>(static_cast<C>(a[i]) / static_cast<C>(by));
}

#define BY_TYPE(type, call)                  \
  switch (type) {                            \
    case 0: call(int8_t, int8_t); break;     \
    case 1: call(uint8_t, uint8_t); break;   \
    case 2: call(int32_t, int32_t); break;   \
    case 3: call(uint32_t, uint32_t); break; \
    case 4: call(int64_t, int64_t); break;   \
    case 5: call(uint64_t, uint64_t); break; \
    case 6: call(Half, float); break;        \
    case 7: call(float, float); break;       \
    case 8: call(double, double); break;     \
    default: call(BFloat16, float); break;   \
  }

// ---- calls ----
std::string collective(const Op& o) { return o.comm->name + ".c" + std::to_string(o.comm->collectives); }

bool send(Op& o) {  // what others wait for
  Comm& c = *o.comm;
  const size_t bytes = o.count * size_of(o.type);
  if (o.what.rfind("Send", 0) == 0) {
    const std::string way = ".p" + std::to_string(c.rank) + "." + std::to_string(o.root);
    post(c.name + way + "." + std::to_string(c.messages[way]++), "message", o.src, bytes);
  } else if (o.what.rfind("Recv", 0) != 0) {
    const size_t parts = o.what.rfind("ReduceScatter", 0) == 0 ? static_cast<size_t>(c.ranks) : 1;
    post(collective(o) + "." + std::to_string(c.rank), o.what, o.src, bytes * parts);
    ++c.collectives;
  }
  return true;
}

bool receive(Op& o, int number) {
  Comm& c = *o.comm;
  const size_t bytes = o.count * size_of(o.type);
  std::string data;
  if (o.what.rfind("Send", 0) == 0) return true;
  if (o.what.rfind("Recv", 0) == 0) {
    const std::string way = ".p" + std::to_string(o.root) + "." + std::to_string(c.rank);
    const std::string name = c.name + way + "." + std::to_string(c.messages["in" + way]++);
    if (!take(&c, name, "message", data)) return false;
    if (data.size() != bytes) return last_error = "a message of another size", false;
    std::memcpy(o.dst, data.data(), bytes);
    return true;
  }
  const std::string name = c.name + ".c" + std::to_string(number) + ".";
  std::string sum;
  for (int r = 0; r < c.ranks; ++r) {
    if (!take(&c, name + std::to_string(r), o.what, data)) return false;
    if (o.what.rfind("AllGather", 0) == 0) {
      std::memcpy(static_cast<char*>(o.dst) + bytes * static_cast<size_t>(r), data.data(), bytes);
    } else if (o.what.rfind("Broadcast", 0) == 0) {
      if (r == o.root) std::memcpy(o.dst, data.data(), bytes);
    } else if (r == 0) {
      sum = data;
    } else {
      const size_t n = sum.size() / size_of(o.type);
#define FOLD(T, C) fold<T, C>(sum.data(), data.data(), n, o.op)
      BY_TYPE(o.type, FOLD)
    }
  }
  if (sum.empty()) return true;
  if (o.op == 4) {
    const size_t n = sum.size() / size_of(o.type);
#define DIVIDE(T, C) divide<T, C>(sum.data(), n, c.ranks)
    BY_TYPE(o.type, DIVIDE)
  }
  const bool scattered = o.what.rfind("ReduceScatter", 0) == 0;
  const bool here = o.what.rfind("Reduce ", 0) != 0 || c.rank == o.root;
  if (here) std::memcpy(o.dst, sum.data() + (scattered ? bytes * static_cast<size_t>(c.rank) : 0), bytes);
  return true;
}

int carry_out() {
  std::vector<Op> ops;
  ops.swap(grouped);
  if (number_of("FAKE_NCCL_STUCK") != 0) {  // kernels that never end
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    reinterpret_cast<void (*)(int)>(dlsym(driver, "fake_hold"))(1);
    return kSuccess;
  }
  std::vector<int> numbers;
  for (Op& o : ops) {
    numbers.push_back(o.comm->collectives);
    send(o);
  }
  for (size_t i = 0; i < ops.size(); ++i) {
    if (!receive(ops[i], numbers[i])) return kInvalid;
  }
  return kSuccess;
}

int add(const char* name, const void* src, void* dst, size_t count, int type, int op, int root, Comm* comm) {
  std::ostringstream what;
  what << name << ' ' << count << ' ' << type << ' ' << op << ' ' << root;
  notes += what.str() + "\n";
  ++calls;
  const bool message = std::strcmp(name, "Send") == 0 || std::strcmp(name, "Recv") == 0;
  grouped.push_back({message ? name : what.str(), src, dst, count, type, op, root, comm});
  return depth == 0 ? carry_out() : kSuccess;
}

}  // namespace

EXPORT const char* fake_nccl_notes() { return notes.c_str(); }
EXPORT void fake_nccl_clear() { notes.clear(); }

EXPORT int ncclGetVersion(int* version) {
  const int given = number_of("FAKE_NCCL_VERSION");
  return *version = given != 0 ? given : 22703, kSuccess;
}
EXPORT const char* ncclGetErrorString(int result) {
  return result == kRemote ? "remote process exited or there was a network error"
         : result == kInvalid ? "invalid argument" : result == kSystem ? "unhandled system error" : "no error";
}
EXPORT const char* ncclGetLastError(Comm*) { return last_error.c_str(); }
EXPORT int ncclGetUniqueId(Id* id) {
  std::snprintf(id->bytes, sizeof(id->bytes), "%d-%d", getpid(), ++calls);
  return kSuccess;
}
EXPORT int ncclCommInitRank(Comm** out, int ranks, Id id, int rank) {
  if (number_of("FAKE_NCCL_NO_INIT") != 0) return last_error = "no socket", kSystem;
  notes += "Init " + std::to_string(ranks) + " " + std::to_string(rank) + "\n";
  *out = new Comm{id.bytes, ranks, rank};
  return kSuccess;
}
EXPORT int ncclCommDestroy(Comm*) { return notes += "Destroy\n", kSuccess; }
EXPORT int ncclCommAbort(Comm* comm) {
  comm->aborted = true;
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  reinterpret_cast<void (*)(int)>(dlsym(driver, "fake_hold"))(0);
  return kSuccess;
}
EXPORT int ncclCommGetAsyncError(Comm*, int* result) {
  const int from = number_of("FAKE_NCCL_ERROR");
  return *result = from != 0 && calls >= from ? kRemote : kSuccess, kSuccess;
}
EXPORT int ncclGroupStart() { return notes += "GroupStart\n", ++depth, kSuccess; }
EXPORT int ncclGroupEnd() { return notes += "GroupEnd\n", --depth == 0 ? carry_out() : kSuccess; }

EXPORT int ncclAllReduce(const void* src, void* dst, size_t n, int type, int op, Comm* comm, void*) {
  return add("AllReduce", src, dst, n, type, op, 0, comm);
}
EXPORT int ncclReduce(const void* src, void* dst, size_t n, int type, int op, int root, Comm* comm, void*) {
  return add("Reduce", src, dst, n, type, op, root, comm);
}
EXPORT int ncclBroadcast(const void* src, void* dst, size_t n, int type, int root, Comm* comm, void*) {
  return add("Broadcast", src, dst, n, type, 0, root, comm);
}
EXPORT int ncclAllGather(const void* src, void* dst, size_t n, int type, Comm* comm, void*) {
  return add("AllGather", src, dst, n, type, 0, 0, comm);
}
EXPORT int ncclReduceScatter(const void* src, void* dst, size_t n, int type, int op, Comm* comm, void*) {
  return add("ReduceScatter", src, dst, n, type, op, 0, comm);
}
EXPORT int ncclSend(const void* src, size_t n, int type, int peer, Comm* comm, void*) {
  return add("Send", src, nullptr, n, type, 0, peer, comm);
}
EXPORT int ncclRecv(void* dst, size_t n, int type, int peer, Comm* comm, void*) {
  return add("Recv", nullptr, dst, n, type, 0, peer, comm);
}
