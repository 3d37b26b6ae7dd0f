#include "runtime/core/rounding.h"
#include "runtime/iterate/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "runtime/core/interrupt.h"

namespace facula {

namespace {

constinit thread_local bool tls_inside __attribute__((tls_model("initial-exec"))) = false;

// CPUs that this process may use: affinity, then the quota of its control group.
int count_usable_cpus() {
  int n = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) n = CPU_COUNT(&set);
  double quota = -1, period = 0;
  if (std::FILE* f = std::fopen("/sys/fs/cgroup/cpu.max", "r"); f != nullptr) {
    if (std::fscanf(f, "%lf %lf", &quota, &period) != 2) quota = -1;  // "max 100000"
    std::fclose(f);
  } else {
    const auto read = [](const char* path) {
      double value = -1;
      if (std::FILE* g = std::fopen(path, "r"); g != nullptr) {
        if (std::fscanf(g, "%lf", &value) != 1) value = -1;
        std::fclose(g);
      }
      return value;
    };
    quota = read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    period = read("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  }
  if (quota > 0 && period > 0) n = std::min(n, static_cast<int>((quota + period - 1) / period));
  return std::clamp(n, 1, 1024);
}

int usable_cpus() {
  static const int n = count_usable_cpus();
  return n;
}

int initial_threads() {
  for (const char* name : {"FACULA_NUM_THREADS", "OMP_NUM_THREADS"}) {
    if (const char* text = std::getenv(name); text != nullptr) {
      const long n = std::strtol(text, nullptr, 10);
      if (n >= 1) return static_cast<int>(std::min(n, 1024L));
    }
  }
  return usable_cpus();
}

std::atomic<int> g_threads{0};

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits a little for something that is likely to come soon: going to sleep and being woken takes longer
// than many a piece of work. Not where threads share processors: there waiting holds up what it waits for.
template <typename F>
bool await_briefly(const F& done) {
  if (get_num_threads() > usable_cpus()) return done();
  constexpr auto kPatience = std::chrono::microseconds(50);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  do {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

// Kernels of virtual machines take a CPU that sleeps for one that was taken away, and wake a thread beside the one
// that called it, where it stays: both then share a CPU while another idles. So threads of a job see to it that
// each has a CPU of its own. Adds this thread's to those taken, or, if it is among them, a free one to move to;
// the latter is returned, else -1.
int claim_cpu(cpu_set_t& taken) {
  const int here = sched_getcpu();
  if (here < 0 || here >= CPU_SETSIZE) return -1;
  if (!CPU_ISSET(here, &taken)) {
    CPU_SET(here, &taken);
    return -1;
  }
  cpu_set_t allowed;
  if (get_num_threads() > usable_cpus() || sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return -1;
  for (int i = 1; i < CPU_SETSIZE; ++i) {
    const int cpu = (here + i) % CPU_SETSIZE;
    if (!CPU_ISSET(cpu, &allowed) || CPU_ISSET(cpu, &taken)) continue;
    CPU_SET(cpu, &taken);
    return cpu;
  }
  return -1;
}

// Narrows the CPUs that this thread may run on, for a while. Another's choice, made meanwhile, stays.
class Narrowed {
  cpu_set_t before_{}, now_{};
  bool is_narrowed_ = false;

 public:
  template <typename F>
  explicit Narrowed(const F& narrow) {
    if (sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
    now_ = before_;
    narrow(now_);
    is_narrowed_ = CPU_COUNT(&now_) > 0 && sched_setaffinity(0, sizeof(now_), &now_) == 0;
  }
  Narrowed(const Narrowed&) = delete;
  Narrowed& operator=(const Narrowed&) = delete;
  ~Narrowed() {
    cpu_set_t found;
    if (!is_narrowed_ || sched_getaffinity(0, sizeof(found), &found) != 0 || !CPU_EQUAL(&found, &now_)) return;
    sched_setaffinity(0, sizeof(before_), &before_);
  }
};

// Moves this thread, which may leave again.
void move_to(int cpu) {
  const Narrowed there([&](cpu_set_t& cpus) {
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
  });
}

// Cuts pieces whose work is long, so that a signal is noticed soon, and tells how much of one to do at a time.
class Slices {
  static constexpr int64_t kPart = 16, kGrains = 16;   // the first is so small a part, and at most so many grains
  static constexpr double kLong = 20e6, kGrowth = 32;  // nanoseconds; from one to the next
  int64_t grain_, size_ = 0;

 public:
  explicit Slices(int64_t grain) : grain_(grain) {}
  // Until `stop()`.
  template <typename Stop>
  void run(detail::RangeFn fn, void* context, int64_t begin, int64_t end, const Stop& stop) {
    while (begin < end && !stop()) {
      if (size_ == 0) size_ = std::max(grain_, std::min((end - begin) / kPart, grain_ * kGrains));
      const int64_t n = end - begin < size_ + std::max(grain_, size_ / 2) ? end - begin : size_;
      const auto start = std::chrono::steady_clock::now();
      fn(context, begin, begin + n);
      begin += n;
      const double took = std::max<double>(
          1, static_cast<double>(std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count()));
      const double size = std::min(static_cast<double>(n) * std::min(kLong / took, kGrowth), 0x1p60);
      size_ = std::max(grain_, static_cast<int64_t>(size));
    }
  }
};

// One parallel_for; lives on its caller's stack.
struct Job {
  int64_t end, chunk, grain;
  detail::RangeFn fn;
  void* context;
  std::atomic<int64_t> next;
  int seats;         // helpers that may still join; under the pool's mutex
  cpu_set_t cpus{};  // where threads work on it; under the pool's mutex
  int caller = sched_getcpu();
  std::exception_ptr error{};   // under the pool's mutex
  std::atomic<int> active = 0;  // helpers inside; changed under the pool's mutex
  std::atomic<bool> failed = false;

  // Takes pieces until none is left.
  void work(std::mutex& mutex) {
    Slices slices(grain);
    while (true) {
      const int64_t b = next.fetch_add(chunk, std::memory_order_relaxed);
      if (b >= end) return;
      try {
        slices.run(fn, context, b, std::min(b + chunk, end), [&] {
          check_interrupt();
          return failed.load(std::memory_order_relaxed);
        });
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next.store(end, std::memory_order_relaxed);
        failed.store(true, std::memory_order_relaxed);  // the others end with errors of their own, which count for less
      }
    }
  }
};

// Threads look out for a job with a free seat for a while, then sleep until there is one. They are detached and the
// pool is never destroyed: at exit they are asleep, and there is nothing to tear down.
struct Pool {
  std::mutex mutex;
  std::condition_variable wake, left;
  std::vector<Job*> jobs;
  std::atomic<int> waiting{0};  // jobs in the list; changed under the mutex
  int workers = 0, asleep = 0;  // under the mutex

  void serve() {
    tls_inside = true;
    int caller = -1;
    while (true) {
      if (!await_briefly([&] { return waiting.load(std::memory_order_relaxed) > 0; })) sleep(caller);
      std::unique_lock lock(mutex);
      if (jobs.empty()) continue;
      Job* job = jobs.front();
      if (--job->seats == 0) remove(jobs.begin());
      job->active.fetch_add(1, std::memory_order_relaxed);
      caller = job->caller;
      const int cpu = claim_cpu(job->cpus);
      lock.unlock();
      if (cpu >= 0) move_to(cpu);
      detail::tls_watch.cancelled = &job->failed;
      job->work(mutex);
      detail::tls_watch.cancelled = nullptr;
      lock.lock();
      // The last touch of the job: its caller may return and end it right after.
      if (job->active.fetch_sub(1, std::memory_order_release) == 1) left.notify_all();
    }
  }

  // Until there is a job; not where the last caller is, beside which this thread would be woken, and wait.
  void sleep(int caller) {
    const Narrowed away([&](cpu_set_t& cpus) {
      if (caller >= 0 && get_num_threads() <= usable_cpus()) CPU_CLR(caller, &cpus);
    });
    std::unique_lock lock(mutex);
    ++asleep;
    wake.wait(lock, [&] { return !jobs.empty(); });
    --asleep;
  }

  void remove(std::vector<Job*>::iterator at) {
    jobs.erase(at);
    waiting.store(static_cast<int>(jobs.size()), std::memory_order_relaxed);
  }

  void grow(int wanted) {
    // Signals are for the program's own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      for (; workers < wanted; ++workers) std::thread([this] { serve(); }).detach();
    } catch (const std::system_error&) {  // no more threads to be had: fewer helpers
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void run(Job& job) {
    int sleepers = 0;
    {
      std::lock_guard lock(mutex);
      if (workers < job.seats) grow(job.seats);
      claim_cpu(job.cpus);
      sleepers = std::min(asleep, job.seats);
      jobs.push_back(&job);
      waiting.store(static_cast<int>(jobs.size()), std::memory_order_relaxed);
    }
    for (int i = 0; i < sleepers; ++i) wake.notify_one();
    tls_inside = true;
    job.work(mutex);
    tls_inside = false;
    {
      std::lock_guard lock(mutex);
      if (const auto at = std::find(jobs.begin(), jobs.end(), &job); at != jobs.end()) remove(at);
    }
    const auto done = [&] { return job.active.load(std::memory_order_acquire) == 0; };
    if (await_briefly(done)) return;
    std::unique_lock lock(mutex);
    left.wait(lock, done);
  }
};

std::atomic<Pool*> g_pool{nullptr};

Pool& pool() {
  if (Pool* p = g_pool.load(std::memory_order_acquire); p != nullptr) return *p;
  static std::once_flag once;
  std::call_once(once, [] {
    g_pool.store(new Pool, std::memory_order_release);
    // A forked child has this thread only: it starts with a new pool and leaves the old one be.
    pthread_atfork(nullptr, nullptr, [] {
      g_pool.store(new Pool, std::memory_order_release);
      tls_inside = false;
    });
  });
  return *g_pool.load(std::memory_order_acquire);
}

}  // namespace

int get_num_threads() {
  int n = g_threads.load(std::memory_order_relaxed);
  if (n == 0) [[unlikely]] {
    n = initial_threads();
    int expected = 0;
    if (!g_threads.compare_exchange_strong(expected, n)) n = expected;
  }
  return n;
}

void set_num_threads(int n) {
  FACULA_CHECK(n >= 1, Value, Operator{"set_num_threads"}, "the number of threads must be at least 1, not ", n);
  g_threads.store(std::min(n, 1024), std::memory_order_relaxed);
}

bool in_parallel_region() { return tls_inside; }

namespace detail {

void parallel_run(int64_t begin, int64_t end, int64_t grain, RangeFn fn, void* context) {
  const int threads = get_num_threads();
  const int64_t n = end - begin;
  grain = std::max<int64_t>(grain, 1);
  // A few pieces a thread, so that a thread that lost its core holds up little.
  const int64_t chunk = std::max(grain, ceil_div(n, threads * int64_t{8}));
  const int64_t pieces = ceil_div(n, chunk);
  const int helpers = static_cast<int>(std::min<int64_t>(threads - 1, pieces - 1));
  if (helpers <= 0 || tls_inside) {
    Slices(grain).run(fn, context, begin, end, [] {
      check_interrupt();
      return false;
    });
    return;
  }
  Job job{end, chunk, grain, fn, context, begin, helpers};
  pool().run(job);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace detail

}  // namespace facula
