// The pointwise driver and the copies against a loop element by element.
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "check.h"
#include "fake_ops.h"
#include "runtime/iterate/convert.h"
#include "runtime/iterate/result_type.h"
#include "runtime/iterate/strided.h"

using namespace facula;
using namespace facula::test;

namespace {

double get(const Tensor& t, IntList index) {
  int64_t at = 0;
  const size_t lead = index.size() - t.sizes().size();
  for (size_t d = 0; d < t.sizes().size(); ++d) at += (t.sizes()[d] == 1 ? 0 : index[lead + d]) * t.strides()[d];
  return visit_dtype(t.dtype(), [&]<typename T>(std::type_identity<T>) -> double {
    const T v = t.data<T>()[at];
    if constexpr (is_complex_v<T>) {
      return static_cast<double>(v.real());
    } else {
      return static_cast<double>(static_cast<opmath_t<T>>(v));
    }
  });
}

template <typename F>
void for_each_index(IntList sizes, const F& fn) {
  DimVector index(sizes.size(), 0);
  const int64_t n = numel_of(sizes);
  for (int64_t i = 0; i < n; ++i) {
    fn(IntList(index));
    for (size_t d = sizes.size(); d-- > 0;) {
      if (++index[d] < sizes[d]) break;
      index[d] = 0;
    }
  }
}

void fill(const Tensor& t, int seed) {
  std::mt19937 rng(static_cast<unsigned>(seed));
  const size_t n = t.storage()->nbytes() / t.itemsize();
  visit_dtype(t.dtype(), [&]<typename T>(std::type_identity<T>) {
    T* p = static_cast<T*>(t.storage()->data());
    for (size_t i = 0; i < n; ++i) p[i] = T(static_cast<opmath_t<T>>(static_cast<int>(rng() % 20)));
  });
}

// A tensor of this shape with dims in random order, steps and broadcasts.
Tensor random_layout(IntList shape, ScalarType dtype, std::mt19937& rng, bool may_broadcast) {
  const size_t n = shape.size();
  std::vector<size_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = i;
  if (rng() % 2) std::shuffle(order.begin(), order.end(), rng);
  DimVector sizes(shape), strides(n), base;
  int64_t stride = 1;
  for (size_t i = n; i-- > 0;) {
    const size_t d = order[i];
    if (may_broadcast && rng() % 4 == 0) {
      if (rng() % 2) {
        sizes[d] = 1;
        strides[d] = stride;
      } else {
        strides[d] = 0;
      }
      continue;
    }
    if (rng() % 4 == 0) stride *= 2;
    strides[d] = stride;
    stride *= sizes[d];
  }
  Tensor whole = make_empty({stride + 3}, dtype);
  fill(whole, static_cast<int>(rng()));
  return alias(whole, sizes, strides, static_cast<int64_t>(rng() % 3), false);
}

void test_random_adds() {
  std::mt19937 rng(1);
  const ScalarType types[] = {ScalarType::Float32, ScalarType::Float32,  ScalarType::Float64,
                              ScalarType::Float16, ScalarType::BFloat16, ScalarType::Int32,
                              ScalarType::UInt8,   ScalarType::Int64,    ScalarType::Complex64};
  const int64_t choices[] = {1, 2, 3, 5, 17, 40, 300};
  for (int trial = 0; trial < 3000; ++trial) {
    DimVector shape;
    int64_t n = 1;
    for (size_t d = rng() % 5; d-- > 0;) {
      const int64_t s = choices[rng() % 7];
      if (n * s <= 60000) shape.push_back(s), n *= s;
    }
    const ScalarType ta = types[rng() % 9], tb = rng() % 3 ? ta : types[rng() % 9];
    const Tensor a = random_layout(shape, ta, rng, true), b = random_layout(shape, tb, rng, true);
    const DimVector out_shape = broadcast_shapes(a.sizes(), b.sizes());
    int bad = 0;
    const Tensor c = add(a, b);
    CHECK(c.sizes() == IntList(out_shape));
    for_each_index(out_shape, [&](IntList i) { bad += get(c, i) != get(a, i) + get(b, i); });
    const Tensor out = random_layout(out_shape, c.dtype(), rng, false);
    add_out(a, b, out);
    for_each_index(out_shape, [&](IntList i) { bad += get(out, i) != get(c, i); });
    const Tensor again = random_layout(out_shape, rng() % 2 ? c.dtype() : ScalarType::Complex128, rng, false);
    copy_strided(again, a);
    for_each_index(out_shape, [&](IntList i) { bad += get(again, i) != get(a, i); });
    add_out(again, b, again.dtype() == c.dtype() ? again : make_empty(out_shape, ScalarType::Complex128));
    if (again.dtype() == c.dtype()) for_each_index(out_shape, [&](IntList i) { bad += get(again, i) != get(c, i); });
    if (bad != 0) std::printf("trial %d %s\n", trial, shape_string(out_shape).c_str());
    CHECK(bad == 0);
  }
}

// Contiguous tensors and numbers: the short ways.
void test_short() {
  std::mt19937 rng(2);
  const ScalarType types[] = {ScalarType::Float32, ScalarType::Float64, ScalarType::Int64, ScalarType::UInt8,
                              ScalarType::Complex128};
  const int64_t choices[] = {1, 2, 3, 8, 33, 100};
  for (int trial = 0; trial < 3000; ++trial) {
    DimVector shape;
    for (size_t d = rng() % 4; d-- > 0;) shape.push_back(choices[rng() % 6]);
    const ScalarType type = types[rng() % 5];
    Tensor in[2];
    for (Tensor& t : in) {
      DimVector own(shape);
      for (int64_t& s : own) s = rng() % 3 == 0 ? 1 : s;
      while (!own.empty() && rng() % 4 == 0) own.erase(own.begin());
      t = rng() % 4 == 0 ? wrapped_number(Scalar(static_cast<int64_t>(rng() % 50))) : make_empty(own, type);
      if (!t.is_wrapped_number()) fill(t, static_cast<int>(rng()));
    }
    if (in[0].is_wrapped_number() && in[1].is_wrapped_number()) continue;
    const DimVector out_shape = broadcast_shapes(in[0].sizes(), in[1].sizes());
    const Tensor c = add(in[0], in[1]), out = make_empty(out_shape, type);
    add_out(in[0], in[1], out);
    int bad = !(c.sizes() == IntList(out_shape)) || !c.is_contiguous() || c.dtype() != type;
    for_each_index(out_shape,
                   [&](IntList i) { bad += get(c, i) != get(in[0], i) + get(in[1], i) || get(out, i) != get(c, i); });
    for (const Tensor& t : in) {  // and in place
      if (t.is_wrapped_number() || !(t.sizes() == IntList(out_shape))) continue;
      add_out(in[0], in[1], t);
      for_each_index(out_shape, [&](IntList i) { bad += get(t, i) != get(c, i); });
      break;
    }
    if (bad != 0) std::printf("short trial %d %s\n", trial, shape_string(out_shape).c_str());
    CHECK(bad == 0);
  }
  const Tensor big = make_empty({100001}, ScalarType::Float32);
  fill(big, 5);
  const Tensor sum = add(big, wrapped_number(Scalar(2)));
  int bad = 0;
  for_each_index(big.sizes(), [&](IntList i) { bad += get(sum, i) != get(big, i) + 2; });
  CHECK(bad == 0);
}

void test_large() {
  for (int threads : {1, 2, 5}) {
    set_num_threads(threads);
    const Tensor a = make_empty({701, 503}, ScalarType::Float32), b = make_empty({503, 701}, ScalarType::Float32);
    fill(a, 1);
    fill(b, 2);
    const Tensor bt = alias(b, {701, 503}, {1, 701}, 0, false);
    const Tensor c = add(a, bt);
    int bad = 0;
    for_each_index(c.sizes(), [&](IntList i) { bad += get(c, i) != get(a, i) + get(bt, i); });
    const Tensor d = make_empty({701, 503}, ScalarType::Float32);
    copy_strided(d, bt);
    for_each_index(c.sizes(), [&](IntList i) { bad += get(d, i) != get(bt, i); });
    CHECK(bad == 0);
  }
}

// Copies large enough for streaming stores.
void test_streamed() {
  for (ScalarType t :
       {ScalarType::Float32, ScalarType::Float64, ScalarType::BFloat16, ScalarType::UInt8, ScalarType::Complex128}) {
    const int64_t rows = 2112, columns = (int64_t{17} << 20) / (rows * static_cast<int64_t>(itemsize(t))) + 5;
    const Tensor a = make_empty({columns, rows}, t), out = make_empty({rows, columns / 64 * 64}, t);
    fill(a, 4);
    const Tensor at = alias(a, out.sizes(), {1, rows}, 0, false);
    for (const Tensor& dst : {out, make_empty({rows, columns / 64 * 64 + 64}, t)}) {
      const Tensor view = alias(dst, out.sizes(), {dst.size(1), 1}, 0, false);
      copy_strided(view, at);
      int bad = 0;
      for_each_index(view.sizes(), [&](IntList i) { bad += get(view, i) != get(at, i); });
      CHECK(bad == 0);
    }
  }
}

void test_layouts() {
  const Tensor a = make_empty_strided({2, 3, 4}, {1, 2, 6}, ScalarType::Float32);
  CHECK(add(a, a).strides() == IntList({1, 2, 6}));
  const Tensor b = make_empty({2, 3, 4}, ScalarType::Float32);
  CHECK(add(b, a).strides() == IntList({12, 4, 1}));
  CHECK(add(a, b).strides() == IntList({1, 2, 6}));
  const Tensor row = make_empty({4}, ScalarType::Float32);
  CHECK(add(row, b).strides() == IntList({12, 4, 1}));
}

template <typename T>
Tensor vec(std::initializer_list<T> values) {
  Tensor t = make_empty({static_cast<int64_t>(values.size())}, dtype_of_v<T>);
  std::copy(values.begin(), values.end(), t.data<T>());
  return t;
}

void test_promotion() {
  const Tensor f = make_empty({2}, ScalarType::Float32), h = make_empty({2}, ScalarType::Float16),
               i = vec<int32_t>({1, 2}), d0 = make_empty({}, ScalarType::Float64),
               d = make_empty({2}, ScalarType::Float64), u = vec<uint8_t>({1, 200});
  const auto type = [](const Tensor& a, const Tensor& b) {
    const Tensor* both[] = {&a, &b};
    return result_type(both);
  };
  CHECK(type(i, wrapped_number(1.5)) == ScalarType::Float32);
  CHECK(type(h, wrapped_number(1.5)) == ScalarType::Float16);
  CHECK(type(f, d0) == ScalarType::Float32);
  CHECK(type(i, d0) == ScalarType::Float64);
  CHECK(type(d, wrapped_number(complex128(0, 1))) == ScalarType::Complex128);
  CHECK(type(f, wrapped_number(complex128(0, 1))) == ScalarType::Complex64);
  CHECK(type(u, wrapped_number(Scalar(3))) == ScalarType::UInt8);
  CHECK(type(h, make_empty({2}, ScalarType::BFloat16)) == ScalarType::Float32);
  CHECK(get(add(i, wrapped_number(0.5)), {1}) == 2.5);
  // Numbers outside the tensor's range compare as what they are, and never wrap in arithmetic.
  CHECK(get(less(u, wrapped_number(Scalar(300))), {1}) == 1);
  CHECK(get(less(wrapped_number(Scalar(-1)), u), {0}) == 1);
  CHECK(get(less(vec<int32_t>({16777216}), wrapped_number(16777216.5)), {0}) == 1);
  CHECK(get(less(vec<float>({INFINITY}), wrapped_number(1e300)), {0}) == 0);
  CHECK(get(less(wrapped_number(1e300), vec<float>({INFINITY})), {0}) == 1);
  CHECK_RAISES(add(u, wrapped_number(Scalar(300))), Overflow, "300 does not fit into uint8");
  CHECK(get(add(u, wrapped_number(Scalar(3))), {0}) == 4);
}

void test_errors() {
  const Tensor a = make_empty({3, 4}, ScalarType::Float32), b = make_empty({3, 5}, ScalarType::Float32);
  CHECK_RAISES(add(a, b), Runtime,
               "add(): self is (3, 4) and other is (3, 5): they differ at dim 1 (4 and 5) and neither is 1");
  const Tensor m = make_empty({3, 4}, ScalarType::Float32, Device{kMeta});
  CHECK_RAISES(add(a, m), Runtime, "add(): self is (3, 4) on cpu and other is (3, 4) on meta");
  CHECK(add(m, m).is_meta() && add(m, wrapped_number(2.0)).sizes() == a.sizes());
  CHECK_RAISES(add_out(a, a, make_empty({3, 4}, ScalarType::Int64), true), Runtime, "out is int64");
  CHECK_RAISES(add_out(a, a, make_empty({2, 4}, ScalarType::Float32), true), Runtime, "out is (2, 4)");
  const Tensor empty = make_empty({0}, ScalarType::Float64);
  add_out(a, a, empty, true);
  CHECK(empty.sizes() == a.sizes());
  const Tensor x = make_empty({8}, ScalarType::Float32);
  CHECK_RAISES(add_out(alias(x, {7}, {1}, 1), alias(x, {7}, {1}, 0), alias(x, {7}, {1}, 1)), Runtime, "share part");
  const Tensor wide = alias(make_empty({1}, ScalarType::Float32), {4}, {0}, 0);
  CHECK_RAISES(add_out(wide, wide, wide), Runtime, "several indices");
  char bytes[64];
  const Tensor frozen =
      from_storage(StorageImpl::wrap(bytes, 64, {}, [](void*) {}, nullptr, true), {4}, {1}, 0, ScalarType::Float32);
  CHECK_RAISES(add_out(frozen, frozen, frozen), Runtime, "read-only");
  const uint32_t before = x.version();
  add_out(x, x, x);
  CHECK(x.version() == before + 1);
  CHECK_RAISES(add(make_empty({2}, ScalarType::Bool), make_empty({2}, ScalarType::Bool)), NotImplemented,
               "not implemented for bool");
  CHECK(add(make_empty({0, 3}, ScalarType::Float32), make_empty({1, 3}, ScalarType::Float32)).numel() == 0);
  // Overlap that only a copy settles: columns written from a shifted, strided view.
  const Tensor y = make_empty({10, 10}, ScalarType::Float32);
  fill(y, 3);
  const Tensor dst = alias(y, {9, 4}, {10, 2}, 0), src = alias(y, {9, 4}, {10, 2}, 12);
  std::vector<double> expected;
  for_each_index(dst.sizes(), [&](IntList i) { expected.push_back(get(dst, i) + get(src, i)); });
  add_out(dst, src, dst);
  size_t k = 0;
  int bad = 0;
  for_each_index(dst.sizes(), [&](IntList i) { bad += get(dst, i) != expected[k++]; });
  CHECK(bad == 0);
}

void test_conversions() {
  const Tensor f = vec<float>({NAN, INFINITY, -1.7f, 3e9f, 300.f, -0.0f});
  Tensor i32 = make_empty({6}, ScalarType::Int32), u8 = make_empty({6}, ScalarType::UInt8),
         i64 = make_empty({6}, ScalarType::Int64), b = make_empty({6}, ScalarType::Bool),
         h = make_empty({6}, ScalarType::Float16);
  copy_strided(i32, f);
  copy_strided(u8, f);
  copy_strided(i64, f);
  copy_strided(b, f);
  copy_strided(h, f);
  CHECK(i32.data<int32_t>()[2] == -1 && i32.data<int32_t>()[4] == 300);
  CHECK(u8.data<uint8_t>()[2] == 255 && u8.data<uint8_t>()[4] == 44);
  CHECK(i64.data<int64_t>()[3] == 3000000000 && i64.data<int64_t>()[0] == std::numeric_limits<int64_t>::min());
  CHECK(b.data<bool>()[0] && !b.data<bool>()[5]);
  CHECK(h.data<Half>()[1].bits == 0x7C00 && h.data<Half>()[5].bits == 0x8000);
  // Every half and bfloat16 through float and back, in a length that mixes vector and tail code.
  for (ScalarType t : {ScalarType::Float16, ScalarType::BFloat16}) {
    Tensor all = make_empty({65536}, t), wide = make_empty({65536}, ScalarType::Float32), back = make_empty({65536}, t);
    for (int v = 0; v < 65536; ++v) all.data<uint16_t>()[v] = static_cast<uint16_t>(v);
    copy_strided(wide, all);
    copy_strided(back, wide);
    int bad = 0;
    for (int v = 0; v < 65536; ++v) bad += !std::isnan(wide.data<float>()[v]) && back.data<uint16_t>()[v] != v;
    CHECK(bad == 0);
  }
}

}  // namespace

int main() {
  test_random_adds();
  test_short();
  test_large();
  test_streamed();
  test_layouts();
  test_promotion();
  test_errors();
  test_conversions();
  std::printf(g_failures == 0 ? "pointwise: ok\n" : "pointwise: %d failures\n", g_failures);
  return g_failures != 0;
}
