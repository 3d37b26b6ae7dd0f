// A handful of recorded operators on float64 and complex128 tensors, written by hand the way generated
// code does it, so that autograd can be checked without any generated operator.
#pragma once

#include <cmath>
#include <cstdio>

#include "runtime/autograd/engine.h"
#include "runtime/autograd/view.h"

namespace tiny {

using namespace facula;  // NOLINT

inline bool active(const Tensor& a, const Tensor& b = {}) {
  return ((layers_of(a) | layers_of(b)) & ~tls_state.excluded & layer_bit(Layer::Autograd)) != 0;
}
inline bool records(const Tensor& a, const Tensor& b = {}) { return active(a, b) && (needs_grad(a) || needs_grad(b)); }

// ---- kernels ----
template <typename T, typename F>
void loop(const Tensor& out, const Tensor& a, const Tensor& b, F f) {
  const size_t n = out.sizes().size();
  const auto strides_for = [&](const Tensor& t) {
    DimVector s(n, 0);
    const size_t extra = n - t.sizes().size();
    for (size_t d = extra; d < n; ++d) s[d] = t.sizes()[d - extra] == 1 ? 0 : t.strides()[d - extra];
    return s;
  };
  const DimVector sa = strides_for(a), sb = strides_for(b);
  for (int64_t i = 0; i < out.numel(); ++i) {
    int64_t rest = i, po = 0, pa = 0, pb = 0;
    for (size_t d = n; d-- > 0;) {
      const int64_t at = rest % out.sizes()[d];
      rest /= out.sizes()[d];
      po += at * out.strides()[d];
      pa += at * sa[d];
      pb += at * sb[d];
    }
    out.data<T>()[po] = f(a.data<T>()[pa], b.data<T>()[pb]);
  }
}
template <typename F>
void run(const Tensor& out, const Tensor& a, const Tensor& b, F f) {
  if (out.is_complex()) {
    loop<complex128>(out, a, b, f);
  } else {
    loop<double>(out, a, b, f);
  }
}
template <typename F>
Tensor fresh(const Tensor& a, const Tensor& b, F f) {
  if (a.sizes() == b.sizes() && a.numel() == 1 && !a.is_complex()) {  // small enough to time
    Tensor out = make_empty(a.sizes(), a.dtype());
    *out.data<double>() = f(*a.data<double>(), *b.data<double>());
    return out;
  }
  Tensor out = make_empty(broadcast_shapes(a.sizes(), b.sizes()), a.dtype());
  run(out, a, b, f);
  return out;
}
template <typename F>
void into(const char* op, const Tensor& out, const Tensor& b, F f) {
  check_writable(out, "into");
  run(out, out, b, f);
  out.bump_version({op});
}
inline Tensor full(IntList sizes, double v) {
  Tensor t = make_empty(sizes, ScalarType::Float64);
  std::fill_n(t.data<double>(), t.numel(), v);
  return t;
}
inline Tensor of(std::initializer_list<double> v) {
  Tensor t = make_empty({static_cast<int64_t>(v.size())}, ScalarType::Float64);
  std::copy(v.begin(), v.end(), t.data<double>());
  return t;
}
inline Tensor leaf(Tensor t) {
  set_requires_grad(t, true);
  return t;
}

Tensor mul(const Tensor& a, const Tensor& b);
Tensor as_strided(const Tensor& t, IntList sizes, IntList strides, int64_t offset);
inline Tensor exp(const Tensor& a);

// ---- add ----
struct Add final : Node {
  const char* name() const override { return "Add"; }
  void apply(std::span<const Tensor> g, std::span<Tensor> r) override {
    if (needs(0)) r[0] = g[0];
    if (needs(1)) r[1] = g[0];
  }
};
inline Tensor add(const Tensor& a, const Tensor& b) {
  Tensor out = fresh(a, b, [](auto x, auto y) { return x + y; });
  if (records(a, b)) {
    auto node = make_intrusive<Add>();
    add_edge(*node, a);
    add_edge(*node, b);
    set_history(out, node);
  }
  return out;
}
inline void add_(const Tensor& a, const Tensor& b) {
  intrusive_ptr<Node> node;
  if (active(a, b)) {
    check_inplace(a, "add_", records(a, b));
    if (records(a, b)) {
      node = make_intrusive<Add>();
      add_edge(*node, a);
      add_edge(*node, b);
    }
  }
  into("add_", a, b, [](auto x, auto y) { return x + y; });
  if (node) rebase_history(a, node);
}

// ---- mul ----
struct Mul final : Node {
  SavedTensor self, other;
  const char* name() const override { return "Mul"; }
  void release_saved(Released& out) override {
    self.release(out);
    other.release(out);
  }
  void saved(SavedFields& out) const override {
    out.add("self", self);
    out.add("other", other);
  }
  void apply(std::span<const Tensor> g, std::span<Tensor> r) override {
    if (needs(0)) r[0] = mul(g[0], other.unpack(*this, "other"));
    if (needs(1)) r[1] = mul(g[0], self.unpack(*this, "self"));
  }
};
inline intrusive_ptr<Mul> mul_node(const Tensor& a, const Tensor& b, bool in_place) {
  auto node = make_intrusive<Mul>();
  add_edge(*node, a);
  add_edge(*node, b);
  if (needs_grad(a)) node->other = SavedTensor(b, false);
  if (needs_grad(b)) node->self = SavedTensor(in_place ? core_operators().clone(a) : a, false);
  return node;
}
inline Tensor mul(const Tensor& a, const Tensor& b) {
  Tensor out = fresh(a, b, [](auto x, auto y) { return x * y; });
  if (records(a, b)) set_history(out, mul_node(a, b, false));
  return out;
}
inline void mul_(const Tensor& a, const Tensor& b) {
  intrusive_ptr<Node> node;
  if (active(a, b)) {
    check_inplace(a, "mul_", records(a, b));
    if (records(a, b)) node = mul_node(a, b, true);
  }
  into("mul_", a, b, [](auto x, auto y) { return x * y; });
  if (node) rebase_history(a, node);
}

// ---- exp: saves its output ----
struct Exp final : Node {
  SavedTensor result;
  const char* name() const override { return "Exp"; }
  void release_saved(Released& out) override { result.release(out); }
  void apply(std::span<const Tensor> g, std::span<Tensor> r) override {
    if (needs(0)) r[0] = mul(g[0], result.unpack(*this, "result"));
  }
};
inline Tensor exp(const Tensor& a) {
  Tensor out = fresh(a, a, [](auto x, auto) { return std::exp(x); });
  if (records(a)) {
    auto node = make_intrusive<Exp>();
    add_edge(*node, a);
    set_history(out, node);
    node->result = SavedTensor(out, true);
  }
  return out;
}
inline void exp_(const Tensor& a) {
  intrusive_ptr<Exp> node;
  if (active(a)) {
    check_inplace(a, "exp_", records(a));
    if (records(a)) {
      node = make_intrusive<Exp>();
      add_edge(*node, a);
    }
  }
  into("exp_", a, a, [](auto x, auto) { return std::exp(x); });
  if (node) {
    rebase_history(a, node);
    node->result = SavedTensor(a, true);
  }
}

// ---- copies and views ----
struct Copy final : Node {
  const char* name() const override { return "Copy"; }
  void apply(std::span<const Tensor> g, std::span<Tensor> r) override {
    if (needs(1)) r[1] = g[0];
  }
};
inline void copy_(const Tensor& a, const Tensor& b) {
  intrusive_ptr<Node> node;
  if (active(a, b)) {
    check_inplace(a, "copy_", records(a, b));
    if (records(a, b)) {
      node = make_intrusive<Copy>();
      add_edge(*node, a);
      add_edge(*node, b);
    }
  }
  into("copy_", a, b, [](auto, auto y) { return y; });
  if (node) rebase_history(a, node);
}
inline Tensor clone(const Tensor& a) {
  Tensor out = make_empty_strided(a.sizes(), preserved_strides(a), a.dtype());
  copy_(out, a);
  return out;
}

struct AsStrided final : Node {
  Geometry self, view;
  const char* name() const override { return "AsStrided"; }
  void apply(std::span<const Tensor> g, std::span<Tensor> r) override {
    if (needs(0)) r[0] = scatter_slice(g[0], self, view);
  }
};
inline Tensor as_strided(const Tensor& t, IntList sizes, IntList strides, int64_t offset) {
  Tensor out = alias(t, sizes, strides, offset);
  if (records(t)) {
    auto node = make_intrusive<AsStrided>();
    add_edge(*node, t);
    node->self = Geometry(t);
    node->view = Geometry(out);
    set_history(out, node);
  }
  if (has_tangent(t)) {
    const Tensor d = tangent_of(t);
    set_tangent(out, alias(d, sizes, strides, offset - t.offset() + d.offset()));
  }
  return out;
}
inline Tensor select(const Tensor& t, int64_t i) {
  return as_strided(t, t.sizes().subspan(1), t.strides().subspan(1), t.offset() + i * t.strides()[0]);
}
inline Tensor slice(const Tensor& t, int64_t begin, int64_t end) {
  DimVector sizes(t.sizes());
  sizes[0] = end - begin;
  return as_strided(t, sizes, t.strides(), t.offset() + begin * t.strides()[0]);
}
inline Tensor expand(const Tensor& t, IntList sizes) {
  DimVector strides(sizes.size(), 0);
  const size_t extra = sizes.size() - t.sizes().size();
  for (size_t d = extra; d < sizes.size(); ++d) strides[d] = t.sizes()[d - extra] == 1 ? 0 : t.strides()[d - extra];
  return as_strided(t, sizes, strides, t.offset());
}

// Rows of `t` as separate outputs of one node.
struct Unbind final : Node {
  const char* name() const override { return "Unbind"; }
  void apply(std::span<const Tensor> g, std::span<Tensor> r) override {
    DimVector sizes = output(0).sizes();
    sizes.insert(sizes.begin(), static_cast<int64_t>(g.size()));
    r[0] = core_operators().zeros(Meta{sizes, output(0).dtype, {}, {}});
    for (size_t i = 0; i < g.size(); ++i) {
      if (g[i].defined()) core_operators().copy_into(select(r[0], static_cast<int64_t>(i)), g[i]);
    }
  }
};
inline std::vector<Tensor> unbind(const Tensor& t) {
  std::vector<Tensor> rows;
  {
    BelowAutograd below;
    for (int64_t i = 0; i < t.sizes()[0]; ++i) rows.push_back(select(t, i));
  }
  if (records(t)) {
    auto node = make_intrusive<Unbind>();
    add_edge(*node, t);
    set_history(TensorList(rows), node);
  }
  return rows;
}

// Between complex128 and float64 over the same memory.
struct Reinterpret final : Node {
  const char* name() const override { return "Reinterpret"; }
  void apply(std::span<const Tensor> g, std::span<Tensor> r) override;
};
inline Tensor reinterpret(const Tensor& t) {
  DimVector sizes(t.sizes()), strides(t.strides());
  int64_t offset = t.offset();
  if (t.is_complex()) {
    for (int64_t& s : strides) s *= 2;
    sizes.push_back(2);
    strides.push_back(1);
    offset *= 2;
  } else {
    sizes.pop_back();
    strides.pop_back();
    for (int64_t& s : strides) s /= 2;
    offset /= 2;
  }
  Tensor out =
      from_storage(t.storage(), sizes, strides, offset, t.is_complex() ? to_real(t.dtype()) : to_complex(t.dtype()));
  out.impl()->base = t.is_view() ? t.impl()->base : intrusive_ptr<TensorImpl>::share(t.impl());
  out.impl()->no_grad_view = !tls_state.grad_enabled || t.impl()->no_grad_view;
  if (records(t)) {
    auto node = make_intrusive<Reinterpret>();
    add_edge(*node, t);
    set_history(out, node);
  }
  return out;
}
inline void Reinterpret::apply(std::span<const Tensor> g, std::span<Tensor> r) {
  r[0] = reinterpret(g[0].is_contiguous() ? g[0] : clone(g[0]));
}

// ---- sums ----
struct SumTo final : Node {
  DimVector sizes;
  const char* name() const override { return "SumTo"; }
  void apply(std::span<const Tensor> g, std::span<Tensor> r) override {
    if (needs(0)) r[0] = expand(g[0], sizes);
  }
};
inline Tensor sum_to(const Tensor& a, IntList sizes) {
  Tensor out = make_empty(sizes, a.dtype());
  std::memset(out.raw(), 0, out.nbytes());
  {
    BelowAutograd below;
    const Tensor wide = expand(out, a.sizes());
    run(wide, wide, a, [](auto x, auto y) { return x + y; });
  }
  if (records(a)) {
    auto node = make_intrusive<SumTo>();
    add_edge(*node, a);
    node->sizes = DimVector(a.sizes());
    set_history(out, node);
  }
  return out;
}
inline Tensor sum(const Tensor& a) { return sum_to(a, {}); }

inline void install_roles() {
  CoreOperators& r = core_operators();
  r.accumulate = add;
  r.accumulate_into = add_;
  r.sum_to = sum_to;
  r.cast = [](const Tensor& t, ScalarType dtype, Device) {
    FACULA_CHECK(dtype == ScalarType::Complex128 && t.dtype() == ScalarType::Float64, Runtime, "cast");
    Tensor out = make_empty(t.sizes(), dtype);
    for (int64_t i = 0; i < t.numel(); ++i) out.data<complex128>()[i] = t.data<double>()[i];
    return out;
  };
  r.real_part = [](const Tensor& t) {
    const Tensor two = reinterpret(t);
    return as_strided(two, two.sizes().first(two.sizes().size() - 1), two.strides().first(two.sizes().size() - 1),
                      two.offset());
  };
  r.zeros = [](const Meta& m) {
    Tensor t = make_tensor(m);
    std::memset(t.storage()->data(), 0, t.storage()->nbytes());
    return t;
  };
  r.ones = [](const Meta& m) {
    Tensor t = make_tensor(m);
    std::fill_n(t.data<double>(), t.numel(), 1.0);
    return t;
  };
  r.clone = clone;
  r.as_strided = as_strided;
  r.copy_into = copy_;
  r.view_as_real = reinterpret;
  r.view_as_complex = reinterpret;
}

}  // namespace tiny
