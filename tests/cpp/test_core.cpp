// Devices, dtypes, memory, geometry, the registry and the thread pool.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.h"
#include "runtime/core/generator.h"
#include "runtime/core/pool.h"
#include "runtime/core/tensor.h"
#include "runtime/dispatch/registry.h"
#include "runtime/iterate/parallel.h"
#include "runtime/iterate/strided.h"

using namespace facula;

namespace {

void test_devices() {
  CHECK(parse_device("cpu") == Device{});
  CHECK_RAISES(parse_device("cuda:0"), Runtime, "known device types: cpu, meta");
  const DeviceType type = register_device_type("acme");
  CHECK(register_device_type("acme") == type);
  CHECK((parse_device("acme:1") == Device{type, 1}));
  CHECK(to_string(parse_device("acme:1")) == "acme:1");
  for (const char* bad : {"acme:", "acme:x", "acme:-1", "acme:1000", "", ":0"})
    CHECK_RAISES(parse_device(bad), Runtime, "");
  CHECK_RAISES(make_empty({1}, ScalarType::Float32, parse_device("acme")), Runtime, "no allocator");
}

void test_dtypes() {
  CHECK(promote_types(ScalarType::UInt8, ScalarType::Int8) == ScalarType::Int16);
  CHECK(promote_types(ScalarType::Float16, ScalarType::BFloat16) == ScalarType::Float32);
  CHECK(promote_types(ScalarType::Float64, ScalarType::Complex64) == ScalarType::Complex128);
  CHECK(promote_types(ScalarType::Int64, ScalarType::Float16) == ScalarType::Float16);
  CHECK_RAISES(set_default_dtype(ScalarType::Int32), Type, "int32");
}

void test_memory() {
  const int64_t before = cpu_memory_stats().live_bytes;
  {
    std::vector<Tensor> kept;
    for (int64_t n : {0, 1, 15, 16, 17, 1000, 15900, 16000, 16384, 20000, 300000, 600000, 2000000}) {
      const Tensor t = make_empty({n}, ScalarType::Float32);
      CHECK(reinterpret_cast<uintptr_t>(t.raw()) % 64 == 0);
      if (n > 0) std::memset(t.raw(), 7, t.nbytes());
      kept.push_back(t);
    }
    // Freed on another thread, which then ends.
    std::thread([moved = std::move(kept)]() mutable { moved.clear(); }).join();
  }
  CHECK(cpu_memory_stats().live_bytes == before);
  void* first = cpu_allocate(64 << 20);
  cpu_deallocate(first, 64 << 20);
  CHECK_RAISES(make_empty({int64_t{1} << 55}, ScalarType::Float32), OutOfMemory, "cannot allocate");
  CHECK_RAISES(make_empty({int64_t{1} << 62}, ScalarType::Float32), Runtime, "more bytes");
  CHECK_RAISES(make_empty({int64_t{1} << 40, int64_t{1} << 40}, ScalarType::Float32), Runtime, "more elements");
  CHECK_RAISES(make_empty({int64_t{1} << 40, int64_t{1} << 40, 0}, ScalarType::Float32), Runtime, "more elements");
  CHECK_RAISES(make_empty({-1}, ScalarType::Float32), Runtime, "negative");
  CHECK(make_empty({int64_t{1} << 40}, ScalarType::Float32, Device{kMeta}).raw() == nullptr);
  cpu_empty_cache();
  CHECK(cpu_memory_stats().cached_bytes == 0);
  for (size_t n = 1; n < kPoolLimit; n += 61) {
    void* p = pool_allocate(n);
    std::memset(p, 1, n);
    pool_deallocate(p, n);
  }
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([] {
      for (int i = 0; i < 2000; ++i) {
        std::vector<Tensor> t;
        for (int64_t j = 1; j < 200000; j = j * 3 + i % 7) t.push_back(make_empty({j}, ScalarType::UInt8));
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

void test_storage() {
  Storage s = StorageImpl::allocate(16, {});
  std::memcpy(s->data(), "0123456789abcdef", 16);
  s->resize(8);
  s->resize(100000);
  CHECK(std::memcmp(s->data(), "01234567", 8) == 0 && s->nbytes() == 100000);
  s->resize(200000);
  int released = 0;
  {
    char bytes[8];
    Storage w = StorageImpl::wrap(bytes, 8, {}, [](void* c) { ++*static_cast<int*>(c); }, &released);
    CHECK_RAISES(w->resize(10), Runtime, "another library");
    CHECK_RAISES(from_storage(w, {3}, {1}, 0, ScalarType::Float32), Runtime, "8 bytes");
    CHECK_RAISES(from_storage(w, {2}, {1}, -1, ScalarType::Float32), Runtime, "8 bytes");
    const Tensor t = from_storage(w, {2}, {1}, 0, ScalarType::Float32);
    CHECK(t.raw() == bytes);
  }
  CHECK(released == 1);
}

void test_geometry() {
  const Tensor a = make_empty({4, 6}, ScalarType::Float32);
  CHECK(a.size(-1) == 6 && a.stride(0) == 6);
  CHECK_RAISES(a.size(2), Index, "size(): dim 2 is out of range for a tensor of 2 dims (expected -2 to 1)");
  CHECK_RAISES(alias(a, {5, 6}, {6, 1}, 0), Runtime, "leaves the storage of 24 elements");
  CHECK_RAISES(alias(a, {2}, {int64_t{1} << 62}, 0), Runtime, "");
  const Tensor left = alias(a, {4, 3}, {6, 1}, 0), even = alias(a, {12}, {2}, 0), odd = alias(a, {12}, {2}, 1);
  CHECK(left.is_view() && left.impl()->base.get() == a.impl());
  CHECK(alias(left, {2}, {1}, 0).impl()->base.get() == a.impl());
  CHECK(overlap_of(even, odd) == Overlap::No && overlap_of(even, even) == Overlap::Full);
  CHECK(overlap_of(a, alias(a, {6, 4}, {1, 6}, 0)) == Overlap::Partial);
  CHECK(overlap_of(left, even) == Overlap::TooHard);
  CHECK(has_internal_overlap(alias(a, {4, 4}, {0, 1}, 0)) && has_internal_overlap(alias(a, {4, 4}, {1, 1}, 0)));
  CHECK(!has_internal_overlap(left) && !has_internal_overlap(alias(a, {2, 3}, {3, 2}, 0)));
  CHECK(is_non_overlapping_and_dense({2, 3}, {1, 2}) && !is_non_overlapping_and_dense({2, 3}, {1, 3}));
  CHECK(IntList(preserved_strides(alias(a, {3, 4}, {1, 6}, 0))) == IntList({1, 3}));
  CHECK_RAISES(broadcast_shapes({2, 3}, {4, 3}, "add"), Runtime, "add(): shapes (2, 3) and (4, 3)");
  CHECK(shape_string({3}) == "(3,)" && shape_string({}) == "()");
  CHECK(default_generator().get() == default_generator(Device{kCPU, 0}).get());
}

void test_registry() {
  static OperatorEntry entry{"frob.dim", "frob.dim(Tensor self) -> Tensor", nullptr};
  entry.kernels[kCPU] = [] {};
  register_operator(&entry);
  CHECK(find_operator("frob.dim") == &entry && find_operator("frob") == nullptr);
  CHECK_RAISES(raise_missing_kernel(entry, parse_device("acme")), NotImplemented,
               "frob.dim(): has no kernel for device 'acme' (it has kernels for cpu)");
}

void test_parallel() {
  CHECK_RAISES(set_num_threads(0), Value, "at least 1");
  for (int threads : {1, 2, 4}) {
    set_num_threads(threads);
    for (int64_t n : {1, 7, 1000, 100001}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(n));
      parallel_for(0, n, 10, [&](int64_t b, int64_t e) {
        for (int64_t i = b; i < e; ++i) ++hits[static_cast<size_t>(i)];
        std::atomic<int64_t> nested{0};
        parallel_for(0, 100, 1, [&](int64_t b2, int64_t e2) { nested += e2 - b2; });
        CHECK(nested == 100);
      });
      int64_t once = 0;
      for (const auto& h : hits) once += h == 1;
      CHECK(once == n);
    }
    bool caught = false;
    try {
      parallel_for(0, 1000, 1, [](int64_t b, int64_t) {
        if (b >= 500 || b == 0) throw std::runtime_error("piece");
      });
    } catch (const std::runtime_error&) {
      caught = true;
    }
    CHECK(caught && !in_parallel_region());
  }
  // Several callers at once, and a child of fork.
  std::vector<std::thread> callers;
  std::atomic<int64_t> sum{0};
  for (int k = 0; k < 4; ++k) {
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) parallel_for(0, 1000, 10, [&](int64_t b, int64_t e) { sum += e - b; });
    });
  }
  for (std::thread& t : callers) t.join();
  CHECK(sum == 4 * 200 * 1000);
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int64_t> n{0};
    parallel_for(0, 100000, 10, [&](int64_t b, int64_t e) { n += e - b; });
    const Tensor t = make_empty({20 << 20}, ScalarType::UInt8);
    _exit(n == 100000 && t.raw() != nullptr ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

void test_rows() {
  const Tensor a = make_empty({5, 7, 3}, ScalarType::Int32);
  for (int i = 0; i < 105; ++i) a.data<int32_t>()[i] = i;
  const Tensor turned = alias(a, {3, 7, 5}, {1, 3, 21}, 0, false);
  const Tensor* one[] = {&turned};
  StridedPlan plan = make_plan(turned.sizes(), one);
  CHECK(plan.sizes.size() == 1 && plan.sizes[0] == 105);
  plan = make_plan(turned.sizes(), one, 1u << 1);
  CHECK(plan.numel == 15);
  int64_t sum = 0;
  for_each_row(
      plan,
      [&](char** p, const int64_t* s, int64_t n) {
        for (int64_t i = 0; i < n; ++i) sum += *reinterpret_cast<int32_t*>(p[0] + i * s[0]);
      },
      plan.numel);
  int64_t expected = 0;
  for (int i = 0; i < 5; ++i) {
    for (int k = 0; k < 3; ++k) expected += i * 21 + k;
  }
  CHECK(sum == expected);
}

}  // namespace

int main() {
  test_devices();
  test_dtypes();
  test_memory();
  test_storage();
  test_geometry();
  test_registry();
  test_parallel();
  test_rows();
  std::printf(g_failures == 0 ? "core: ok\n" : "core: %d failures\n", g_failures);
  return g_failures != 0;
}
