// The strict device: `device.cpp` of a package that tools/new_backend.py wrote, replaced by one that
// forgives nothing. Its memory is mapped twice: what facula holds are addresses that fault on any touch,
// kernels use the other mapping. Streams are threads that dawdle; two devices; failures on demand.
#include "device.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace @NAME@ {

const FaculaHost* host = nullptr;

namespace {

constexpr int kDevices = 2;
constexpr size_t kMemory = size_t{6} << 30, kArena = size_t{256} << 30, kPage = 4096;  // addresses are plentiful

// ---- memory: pages handed out, poisoned when they come back ----

struct Arena {
  char* held = nullptr;  // PROT_NONE: what facula sees
  char* used = nullptr;  // the same pages for kernels
  std::mutex mutex;
  std::map<char*, size_t> free, mapped;  // by start
  size_t limit = kMemory, taken = 0;
  Arena() {
    const int fd = memfd_create("@NAME@", 0);
    if (fd < 0 || ftruncate(fd, kArena) != 0) std::abort();
    held = static_cast<char*>(mmap(nullptr, kArena, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0));
    used = static_cast<char*>(mmap(nullptr, kArena, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0));
    if (held == MAP_FAILED || used == MAP_FAILED) std::abort();
    close(fd);
    free[held] = kArena;
  }
};
Arena& arena(int32_t index) {
  static Arena* const arenas = new Arena[kDevices];  // streams go on while the process ends
  return arenas[index];
}

// A page beyond each block stays unused, and poisoned bytes fill what was not asked for.
size_t pages(size_t nbytes) { return (nbytes + kPage - 1) / kPage * kPage + kPage; }

// Addresses that nobody has, or null.
char* find_addresses(Arena& a, size_t size) {
  for (auto it = a.free.begin(); it != a.free.end(); ++it) {
    if (it->second < size) continue;
    char* const start = it->first;
    const size_t rest = it->second - size;
    a.free.erase(it);
    if (rest > 0) a.free[start + size] = rest;
    return start;
  }
  return nullptr;
}

int32_t allocate(void*, int32_t index, size_t nbytes, void*, void** out) {
  Arena& a = arena(index);
  std::lock_guard lock(a.mutex);
  const size_t size = pages(nbytes);
  if (a.taken + size > a.limit) return host->fail(FACULA_OUT_OF_MEMORY, "the strict device is full");
  char* const start = find_addresses(a, size);
  if (start == nullptr) return host->fail(FACULA_OUT_OF_MEMORY, "the strict device is in pieces");
  a.taken += size;
  std::memset(start - a.held + a.used, 0xA5, size);
  *out = start;
  return FACULA_OK;
}

// ---- streams: a thread each, which waits a little before it works ----

struct Stream {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<int32_t()>> queue;
  bool hurry = false, busy = false;
  int32_t status = FACULA_OK;
  std::string text;
  std::vector<std::function<int32_t()>>* capture = nullptr;
  std::thread thread{[this] { run(); }};

  void run();
  void push(std::function<int32_t()> work) {
    std::lock_guard lock(mutex);
    if (capture != nullptr) {
      capture->push_back(std::move(work));
      return;
    }
    queue.push_back(std::move(work));
    changed.notify_all();
  }
  int32_t finish() {
    std::unique_lock lock(mutex);
    hurry = true;
    changed.notify_all();
    changed.wait(lock, [&] { return queue.empty() && !busy; });
    hurry = false;
    const int32_t found = std::exchange(status, FACULA_OK);
    return found == FACULA_OK ? found : host->fail(found, text.c_str());
  }
};
thread_local Stream* tls_running = nullptr;

void Stream::run() {
  tls_running = this;
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return !queue.empty(); });
    // work runs when it must, or when much has gathered, or in the end
    changed.wait_for(lock, std::chrono::microseconds(300), [&] { return hurry || queue.size() >= 64; });
    busy = true;
    while (!queue.empty()) {
      const auto work = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      const int32_t found = work();
      lock.lock();
      if (found != FACULA_OK && status == FACULA_OK) status = found;
    }
    busy = false;
    changed.notify_all();
  }
}

std::mutex streams_mutex;
std::vector<Stream*> streams_of[kDevices];
Stream& stream_of(int32_t index, void* stream) {
  if (stream != nullptr) return *static_cast<Stream*>(stream);
  static Stream* const defaults[kDevices] = {new Stream, new Stream};
  return *defaults[index];
}

int failing_launches = 0;
int64_t launches = 0, ranges = 0;
std::atomic<int64_t> events{0}, locked{0};  // events made; calls of those below that came with Python's lock
void note_lock() {
  static const auto held = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  if (held != nullptr && held() != 0) ++locked;
}
std::mutex failing_mutex;
bool fails_now() {
  std::lock_guard lock(failing_mutex);
  ++launches;
  return failing_launches > 0 && --failing_launches == 0;
}

}  // namespace

int32_t fail(int32_t status, const char* text) {
  if (tls_running == nullptr) return host->fail(status, text);
  tls_running->text = text;
  return status;
}

char* address(void* data) {
  char* const p = static_cast<char*>(data);
  for (int32_t i = 0; i < kDevices; ++i) {
    Arena& a = arena(i);
    if (p >= a.held && p < a.held + kArena) return p - a.held + a.used;
  }
  return p;
}

int32_t enqueue(int32_t index, void* stream, std::function<int32_t()> work) {
  if (fails_now()) return host->fail(FACULA_DEVICE_ERROR, "injected launch failure");
  stream_of(index, stream).push(std::move(work));
  return FACULA_OK;
}

namespace {

int32_t device_count(void*, int32_t* count) {
  *count = kDevices;
  return FACULA_OK;
}
int32_t properties(void*, int32_t index, FaculaProperties* out) {
  std::snprintf(out->name, sizeof(out->name), "Strict %d", index);
  out->total_memory = kMemory;
  out->major = 1;
  out->processors = 1;
  return FACULA_OK;
}
int32_t memory_info(void*, int32_t index, uint64_t* free, uint64_t* total) {
  Arena& a = arena(index);
  std::lock_guard lock(a.mutex);
  *free = a.limit - a.taken;
  *total = a.limit;
  return FACULA_OK;
}
int32_t deallocate(void*, int32_t index, void* data, size_t nbytes, void* stream) {
  // in the stream's order: earlier work may still use it
  stream_of(index, stream).push([=] {
    Arena& a = arena(index);
    std::lock_guard lock(a.mutex);
    const size_t size = pages(nbytes);
    std::memset(address(data), 0x5A, size);
    a.taken -= size;
    const auto [at, fresh] = a.free.emplace(static_cast<char*>(data), size);
    if (!fresh) std::abort();  // freed twice
    if (const auto next = std::next(at); next != a.free.end() && at->first + at->second == next->first) {
      at->second += next->second;
      a.free.erase(next);
    }
    if (at != a.free.begin()) {
      if (const auto before = std::prev(at); before->first + before->second == at->first) {
        before->second += at->second;
        a.free.erase(at);
      }
    }
    return int32_t{FACULA_OK};
  });
  return FACULA_OK;
}

// ---- ranges: their addresses fault in kernels too while no memory is behind them ----

int32_t reserve(void*, int32_t index, void** out, size_t* nbytes) {
  Arena& a = arena(index);
  std::lock_guard lock(a.mutex);
  char* const start = find_addresses(a, kMemory);
  if (start == nullptr) return FACULA_NOT_SUPPORTED;
  mprotect(start - a.held + a.used, kMemory, PROT_NONE);
  *out = start;
  *nbytes = kMemory;
  return FACULA_OK;
}
int32_t map(void*, int32_t index, void* data, size_t nbytes) {
  Arena& a = arena(index);
  std::lock_guard lock(a.mutex);
  if (a.taken + nbytes > a.limit) return host->fail(FACULA_OUT_OF_MEMORY, "the strict device is full");
  if (!a.mapped.emplace(static_cast<char*>(data), nbytes).second) std::abort();
  a.taken += nbytes;
  mprotect(address(data), nbytes, PROT_READ | PROT_WRITE);
  std::memset(address(data), 0xA5, nbytes);
  return FACULA_OK;
}
int32_t unmap(void*, int32_t index, void* data, size_t nbytes) {
  Arena& a = arena(index);
  std::lock_guard lock(a.mutex);
  const auto at = a.mapped.find(static_cast<char*>(data));
  if (at == a.mapped.end() || at->second != nbytes) std::abort();
  a.mapped.erase(at);
  a.taken -= nbytes;
  std::memset(address(data), 0x5A, nbytes);
  mprotect(address(data), nbytes, PROT_NONE);
  return FACULA_OK;
}

int32_t copy(void*, const FaculaCopy* c) {
  const int32_t lead = c->src_index != FACULA_HOST ? c->src_index : c->dst_index;
  void* const dst = c->dst;
  void* const src = const_cast<void*>(c->src);
  const size_t nbytes = c->nbytes;
  return enqueue(lead, c->stream, [=] {
    std::memmove(address(dst), address(src), nbytes);
    return int32_t{FACULA_OK};
  });
}
int32_t pin(void*, size_t nbytes, void** out) {
  note_lock();
  *out = std::aligned_alloc(64, (nbytes + 63) / 64 * 64);
  return *out != nullptr ? FACULA_OK : FACULA_OUT_OF_MEMORY;
}
int32_t unpin(void*, void* data, size_t) {
  std::free(data);
  return FACULA_OK;
}

int32_t create_stream(void*, int32_t index, int32_t, void** out) {
  Stream* const s = new Stream;
  std::lock_guard lock(streams_mutex);
  streams_of[index].push_back(s);
  *out = s;
  return FACULA_OK;
}
int32_t synchronize_stream(void*, int32_t index, void* stream) { return stream_of(index, stream).finish(); }
int32_t query_stream(void*, int32_t index, void* stream) {
  Stream& s = stream_of(index, stream);
  std::lock_guard lock(s.mutex);
  return s.queue.empty() && !s.busy ? FACULA_OK : FACULA_NOT_READY;
}
int32_t synchronize_device(void*, int32_t index) {
  std::vector<Stream*> all;
  {
    std::lock_guard lock(streams_mutex);
    all = streams_of[index];
  }
  all.push_back(&stream_of(index, nullptr));
  int32_t status = FACULA_OK;
  for (Stream* s : all) {
    if (const int32_t found = s->finish(); found != FACULA_OK) status = found;
  }
  return status;
}

struct Event {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t recorded = 0, done = 0;
  Stream* stream = nullptr;
  std::chrono::steady_clock::time_point time;
  void wait_for(uint64_t ticket) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done >= ticket; });
  }
};
Event& event_of(void* e) { return *static_cast<Event*>(e); }
int32_t create_event(void*, int32_t, int32_t, void** out) {
  note_lock();
  ++events;
  *out = new Event;
  return FACULA_OK;
}
int32_t destroy_event(void*, int32_t, void*) {
  note_lock();
  return FACULA_OK;  // a stream may still come to it
}
int32_t record_event(void*, int32_t index, void* event, void* stream) {
  Event& e = event_of(event);
  Stream& s = stream_of(index, stream);
  uint64_t ticket = 0;
  {
    std::lock_guard lock(e.mutex);
    ticket = ++e.recorded;
    e.stream = &s;
  }
  s.push([&e, ticket] {
    std::lock_guard lock(e.mutex);
    e.done = std::max(e.done, ticket);
    e.time = std::chrono::steady_clock::now();
    e.changed.notify_all();
    return int32_t{FACULA_OK};
  });
  return FACULA_OK;
}
int32_t wait_event(void*, int32_t index, void* event, void* stream) {
  Event& e = event_of(event);
  uint64_t ticket = 0;
  {
    std::lock_guard lock(e.mutex);
    ticket = e.recorded;
  }
  stream_of(index, stream).push([&e, ticket] {
    e.wait_for(ticket);
    return int32_t{FACULA_OK};
  });
  return FACULA_OK;
}
int32_t query_event(void*, int32_t, void* event) {
  Event& e = event_of(event);
  std::lock_guard lock(e.mutex);
  return e.done >= e.recorded ? FACULA_OK : FACULA_NOT_READY;
}
int32_t synchronize_event(void*, int32_t, void* event) {
  Event& e = event_of(event);
  uint64_t ticket = 0;
  {
    std::lock_guard lock(e.mutex);
    ticket = e.recorded;
  }
  e.wait_for(ticket);
  return FACULA_OK;
}
int32_t elapsed(void*, int32_t, void* start, void* end, double* ms) {
  note_lock();
  *ms = std::chrono::duration<double, std::milli>(event_of(end).time - event_of(start).time).count();
  return FACULA_OK;
}

using Graph = std::vector<std::function<int32_t()>>;
int32_t begin_capture(void*, int32_t index, void* stream) {
  note_lock();
  Stream& s = stream_of(index, stream);
  std::lock_guard lock(s.mutex);
  s.capture = new Graph;
  return FACULA_OK;
}
int32_t end_capture(void*, int32_t index, void* stream, void** graph) {
  note_lock();
  Stream& s = stream_of(index, stream);
  std::lock_guard lock(s.mutex);
  *graph = std::exchange(s.capture, nullptr);
  return FACULA_OK;
}
int32_t launch_graph(void*, int32_t index, void* graph, void* stream) {
  for (const auto& work : *static_cast<Graph*>(graph)) stream_of(index, stream).push(work);
  return FACULA_OK;
}
int32_t destroy_graph(void*, int32_t, void* graph) {
  note_lock();
  delete static_cast<Graph*>(graph);
  return FACULA_OK;
}
int32_t range_push(void*, const char*) {
  ++ranges;
  return FACULA_OK;
}
int32_t range_pop(void*) { return FACULA_OK; }

const char* const kLower[] = {"bmm", nullptr};
const char* const kFloat32[] = {"sum", "exp", nullptr};

}  // namespace

void describe(FaculaBackend& b) {
  b.flags = FACULA_CACHING | FACULA_CPU_FALLBACK | FACULA_DETERMINISTIC;
  b.device_count = device_count;
  b.properties = properties;
  b.allocate = allocate;
  b.deallocate = deallocate;
  b.copy = copy;
  b.pin = pin;
  b.unpin = unpin;
  b.memory_info = memory_info;
  b.create_stream = create_stream;
  b.synchronize_stream = synchronize_stream;
  b.query_stream = query_stream;
  b.synchronize_device = synchronize_device;
  b.create_event = create_event;
  b.destroy_event = destroy_event;
  b.record_event = record_event;
  b.wait_event = wait_event;
  b.query_event = query_event;
  b.synchronize_event = synchronize_event;
  b.elapsed = elapsed;
  b.begin_capture = begin_capture;
  b.end_capture = end_capture;
  b.launch_graph = launch_graph;
  b.destroy_graph = destroy_graph;
  b.reserve = reserve;
  b.map = map;
  b.unmap = unmap;
  b.range_push = range_push;
  b.range_pop = range_pop;
  b.autocast_dtype = "bfloat16";
  b.autocast_lower = kLower;
  b.autocast_float32 = kFloat32;
  b.serialization_tag = "strict-device";
  b.dlpack_type = 12;  // kDLExtDev
}

}  // namespace @NAME@

// ---- for tests ----
extern "C" {
// The n-th launch from now on fails; 0 for none.
FACULA_EXPORT void fail_launch(int n) {
  std::lock_guard lock(@NAME@::failing_mutex);
  @NAME@::failing_launches = n;
}
// Bytes that a device has, of which some may be in use.
FACULA_EXPORT void set_memory(int index, size_t nbytes) {
  @NAME@::Arena& a = @NAME@::arena(index);
  std::lock_guard lock(a.mutex);
  a.limit = nbytes;
}
FACULA_EXPORT int64_t count_launches() { return @NAME@::launches; }
FACULA_EXPORT int64_t count_ranges() { return @NAME@::ranges; }
FACULA_EXPORT int64_t count_events() { return @NAME@::events; }
FACULA_EXPORT int64_t count_locked() { return @NAME@::locked; }
}
