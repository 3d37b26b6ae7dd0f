// A CUDA driver and an NVRTC for tests without either: memory is the host's, "compiled code" is the
// source itself, and launches are only noted. Built twice, as libcuda.so.1 and as libnvrtc.so.13.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Program {
  std::string text;
};
struct Module {
  std::string text;
  uint64_t errors = 0;  // facula_errors of this module
};
struct Function {
  Module* module;
  std::string name;
};
std::string launches;   // a line a launch: name, grid, block
std::string last_text;  // the source of the last launch
int64_t allocations = 0, fail_allocations = 0, fail_launches = 0;
std::map<unsigned long long, size_t> mappings;
thread_local void* current = nullptr;
std::atomic<bool> held{false};  // a kernel does not end

}  // namespace

// Where the environment names a folder with emulated.h, a kernel of rows runs on the host.
static void emulate(const Function& f, unsigned grid, unsigned block, const void* params) {
  const char* const tests = std::getenv("FAKE_CUDA_EMULATES");
  if (tests == nullptr || f.name != "facula_group_rows") return;
  const std::string name = std::string(std::getenv("FACULA_CACHE")) + "/" + std::to_string(std::hash<std::string>()(f.module->text));
  std::ofstream(name + ".cpp") << "#include \"emulated.h\"\n" << f.module->text.c_str()
                               << "\nextern \"C\" void emulate(unsigned grid, unsigned block, const void* params) {\n"
                                  "  run_kernel(facula_group_rows, grid, block, params);\n}\n";
  const std::string command = "g++ -std=c++20 -w -ffp-contract=off -shared -fPIC -pthread -I" + std::string(tests) +
                              " " + name + ".cpp -o " + name + ".so";
  if (std::system(command.c_str()) != 0) std::abort();
  void* const library = dlopen((name + ".so").c_str(), RTLD_NOW);
  if (library == nullptr) std::abort();
  reinterpret_cast<void (*)(unsigned, unsigned, const void*)>(dlsym(library, "emulate"))(grid, block, params);
}

EXPORT const char* fake_launches() { return launches.c_str(); }
EXPORT const char* fake_text() { return last_text.c_str(); }
EXPORT void fake_clear() { launches.clear(); }
EXPORT void fake_fail(int64_t allocation, int64_t launch) { fail_allocations = allocation, fail_launches = launch; }
EXPORT void fake_hold(int on) { held = on != 0; }
// NVRTC is of another library, which asks this one.
EXPORT void fake_refuse(int refuse) { refuse != 0 ? setenv("FAKE_NVRTC_REFUSES", "1", 1) : unsetenv("FAKE_NVRTC_REFUSES"); }
EXPORT int64_t fake_allocations() { return allocations; }
EXPORT int64_t fake_mappings() { return static_cast<int64_t>(mappings.size()); }

// ---- NVRTC ----
EXPORT int nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, 0; }
EXPORT const char* nvrtcGetErrorString(int) { return "NVRTC_ERROR_COMPILATION"; }
EXPORT int nvrtcGetNumSupportedArchs(int* n) { return *n = 1, 0; }
EXPORT int nvrtcGetSupportedArchs(int* archs) { return *archs = 90, 0; }
EXPORT int nvrtcCreateProgram(Program** p, const char* text, const char*, int, const char* const*, const char* const*) {
  *p = new Program{text};
  return 0;
}
EXPORT int nvrtcDestroyProgram(Program** p) { return delete *p, 0; }
EXPORT int nvrtcCompileProgram(Program*, int, const char* const*) {
  return std::getenv("FAKE_NVRTC_REFUSES") != nullptr ? 6 : 0;
}
EXPORT int nvrtcGetProgramLogSize(Program*, size_t* n) { return *n = 0, 0; }
EXPORT int nvrtcGetProgramLog(Program*, char*) { return 0; }
EXPORT int nvrtcGetCUBINSize(Program* p, size_t* n) { return *n = p->text.size() + 1, 0; }
EXPORT int nvrtcGetCUBIN(Program* p, char* to) { return std::memcpy(to, p->text.c_str(), p->text.size() + 1), 0; }
EXPORT int nvrtcGetPTXSize(Program* p, size_t* n) { return nvrtcGetCUBINSize(p, n); }
EXPORT int nvrtcGetPTX(Program* p, char* to) { return nvrtcGetCUBIN(p, to); }

// ---- the driver ----
using Address = unsigned long long;
EXPORT int cuInit(unsigned) { return 0; }
EXPORT int cuDriverGetVersion(int* v) { return *v = 13000, 0; }
EXPORT int cuGetErrorName(int code, const char** text) {
  return *text = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR", 0;
}
EXPORT int cuGetErrorString(int code, const char** text) {
  return *text = code == 2 ? "out of memory" : code == 719 ? "unspecified launch failure" : "failed", 0;
}
EXPORT int cuDeviceGetCount(int* n) { return *n = 2, 0; }
EXPORT int cuDeviceGet(int* device, int index) { return *device = index, 0; }
EXPORT int cuDeviceGetName(char* to, int n, int) { return std::strncpy(to, "Fake H200", static_cast<size_t>(n)), 0; }
EXPORT int cuDeviceTotalMem_v2(size_t* n, int) { return *n = size_t{1} << 30, 0; }
EXPORT int cuDeviceGetAttribute(int* value, int attribute, int) {
  return *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 132 : attribute == 102, 0;
}
EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
  static int contexts[2];
  return *context = &contexts[device], 0;
}
EXPORT int cuCtxGetCurrent(void** context) { return *context = current, 0; }
EXPORT int cuCtxSetCurrent(void* context) { return current = context, 0; }
EXPORT int cuCtxSynchronize() { return 0; }
EXPORT int cuMemGetInfo_v2(size_t* free, size_t* total) { return *free = 1 << 29, *total = 1 << 30, 0; }
// Files without a name, which other processes can map.
struct Piece {
  int fd;
  size_t size;
};
static std::map<Address, Piece>& pieces() {
  static auto* const all = new std::map<Address, Piece>;
  return *all;
}
static std::mutex& piece_mutex() {
  static auto* const m = new std::mutex;
  return *m;
}
static int add_piece(Address* p, int fd, size_t n) {
  void* const at = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return 2;
  const std::lock_guard lock(piece_mutex());
  pieces()[*p = reinterpret_cast<Address>(at)] = {fd, n};
  return 0;
}
static int drop_piece(Address p) {
  const std::lock_guard lock(piece_mutex());
  const auto at = pieces().find(p);
  if (at == pieces().end()) return 1;
  munmap(reinterpret_cast<void*>(p), at->second.size);
  close(at->second.fd);
  pieces().erase(at);
  return 0;
}
EXPORT int cuMemAlloc_v2(Address* p, size_t n) {
  ++allocations;
  if (fail_allocations > 0) return --fail_allocations, 2;
  if (n > size_t{1} << 30) return 2;
  const int fd = memfd_create("fake_cuda", MFD_CLOEXEC);
  return fd < 0 || ftruncate(fd, static_cast<off_t>(n)) != 0 ? 2 : add_piece(p, fd, n);
}
EXPORT int cuMemFree_v2(Address p) { return drop_piece(p); }
struct Handle {
  unsigned char bytes[64];
};
struct Place {  // of what a handle is of
  int pid, fd;
  size_t size;
};
EXPORT int cuIpcGetMemHandle(Handle* handle, Address p) {
  const std::lock_guard lock(piece_mutex());
  const auto at = pieces().find(p);
  if (at == pieces().end()) return 1;
  const Place place{getpid(), at->second.fd, at->second.size};
  return std::memcpy(handle->bytes, &place, sizeof(place)), 0;
}
EXPORT int cuIpcOpenMemHandle_v2(Address* p, Handle handle, unsigned) {
  Place place{};
  std::memcpy(&place, handle.bytes, sizeof(place));
  if (place.pid == getpid()) return 201;  // as the driver has it
  const std::string name = "/proc/" + std::to_string(place.pid) + "/fd/" + std::to_string(place.fd);
  const int fd = open(name.c_str(), O_RDWR | O_CLOEXEC);
  return fd < 0 ? 1 : add_piece(p, fd, place.size);
}
EXPORT int cuIpcCloseMemHandle(Address p) { return drop_piece(p); }
EXPORT int64_t fake_pieces() {
  const std::lock_guard lock(piece_mutex());
  return static_cast<int64_t>(pieces().size());
}
// Ranges are the host's addresses; a chunk of them can be touched while memory is mapped behind it.
EXPORT int cuMemAddressReserve(Address* p, size_t n, size_t align, Address, unsigned long long) {
  void* const whole = mmap(nullptr, n + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return *p = (reinterpret_cast<Address>(whole) + align - 1) / align * align, whole == MAP_FAILED ? 2 : 0;
}
EXPORT int cuMemCreate(size_t** memory, size_t n, const void*, unsigned long long) {
  ++allocations;
  if (fail_allocations > 0) return --fail_allocations, 2;
  return *memory = new size_t{n}, 0;
}
EXPORT int cuMemRelease(size_t* memory) { return delete memory, 0; }
EXPORT int cuMemMap(Address p, size_t n, size_t offset, const size_t* memory, unsigned long long) {
  return offset != 0 || *memory != n || !mappings.emplace(p, n).second;
}
EXPORT int cuMemSetAccess(Address p, size_t n, const void*, size_t) {
  return mprotect(reinterpret_cast<void*>(p), n, PROT_READ | PROT_WRITE);
}
EXPORT int cuMemUnmap(Address p, size_t n) {
  const auto at = mappings.find(p);
  if (at == mappings.end() || at->second != n) return 1;
  mappings.erase(at);
  return mprotect(reinterpret_cast<void*>(p), n, PROT_NONE);
}
EXPORT int cuMemHostAlloc(void** p, size_t n, unsigned) { return *p = std::calloc(n, 1), 0; }
EXPORT int cuMemFreeHost(void* p) { return std::free(p), 0; }
EXPORT int cuMemHostGetDevicePointer_v2(Address* to, void* p, unsigned) {
  return *to = reinterpret_cast<Address>(p), 0;
}
static int move(void* to, const void* from, size_t n) { return std::memmove(to, from, n), 0; }
EXPORT int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t n, void*) {
  return move(reinterpret_cast<void*>(to), from, n);
}
EXPORT int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t n, void*) {
  return move(to, reinterpret_cast<const void*>(from), n);
}
EXPORT int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t n, void*) {
  return move(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), n);
}
EXPORT int cuMemcpyPeerAsync(Address to, void*, Address from, void*, size_t n, void*) {
  return move(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), n);
}
EXPORT int cuMemcpyHtoD_v2(Address to, const void* from, size_t n) {
  return move(reinterpret_cast<void*>(to), from, n);
}
EXPORT int cuMemsetD8Async(Address p, unsigned char v, size_t n, void*) {
  return std::memset(reinterpret_cast<void*>(p), v, n), 0;
}
EXPORT int cuStreamCreateWithPriority(void** s, unsigned, int) { return *s = std::malloc(1), 0; }
EXPORT int cuStreamSynchronize(void*) {
  while (held) usleep(500);
  return 0;
}
EXPORT int cuStreamQuery(void*) { return 0; }
EXPORT int cuStreamWaitEvent(void*, void*, unsigned) { return 0; }
EXPORT int cuStreamBeginCapture_v2(void*, int) { return 0; }
EXPORT int cuStreamEndCapture(void*, void** graph) { return *graph = std::malloc(1), 0; }
EXPORT int cuStreamIsCapturing(void*, int* status) { return *status = 0, 0; }
EXPORT int cuGraphInstantiateWithFlags(void** made, void*, unsigned long long) { return *made = std::malloc(1), 0; }
EXPORT int cuGraphLaunch(void*, void*) { return 0; }
EXPORT int cuGraphExecDestroy(void* g) { return std::free(g), 0; }
EXPORT int cuGraphDestroy(void* g) { return std::free(g), 0; }
EXPORT int cuEventCreate(void** e, unsigned) { return *e = std::malloc(1), 0; }
EXPORT int cuIpcGetEventHandle(Handle* handle, void*) { return *handle = {}, 0; }
EXPORT int cuIpcOpenEventHandle(void** e, Handle) { return *e = std::malloc(1), 0; }
EXPORT int cuEventDestroy_v2(void* e) { return std::free(e), 0; }
EXPORT int cuEventRecord(void*, void*) { return 0; }
EXPORT int cuEventQuery(void*) { return held ? 600 : 0; }
EXPORT int cuEventSynchronize(void*) { return 0; }
EXPORT int cuEventElapsedTime(float* ms, void*, void*) { return *ms = 1, 0; }
EXPORT int cuModuleLoadData(Module** m, const void* code) {
  return *m = new Module{static_cast<const char*>(code), 0}, 0;
}
EXPORT int cuModuleGetFunction(Function** f, Module* m, const char* name) { return *f = new Function{m, name}, 0; }
EXPORT int cuModuleGetGlobal_v2(Address* p, size_t* n, Module* m, const char*) {
  return *p = reinterpret_cast<Address>(&m->errors), *n = 8, 0;
}
EXPORT int cuFuncSetAttribute(void*, int, int) { return 0; }
EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int, size_t) { return *blocks = 4, 0; }
EXPORT int cuLaunchKernel(Function* f, unsigned x, unsigned y, unsigned z, unsigned a, unsigned b, unsigned c, unsigned,
                          void*, void** arguments, void**) {
  if (fail_launches > 0) return --fail_launches, 719;
  if (arguments != nullptr) emulate(*f, x, a * b * c, arguments[0]);
  if (std::getenv("FAKE_CUDA_QUIET") == nullptr) {
    launches += f->name + " " + std::to_string(x) + " " + std::to_string(y) + " " + std::to_string(z) + " " +
                std::to_string(a * b * c) + "\n";
    last_text = f->module->text;
  }
  return 0;
}
