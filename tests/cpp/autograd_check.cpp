// Self-check of runtime/autograd over hand-written operators. `autograd_check bench` times it.
#include <chrono>
#include <thread>

#include "runtime/autograd/function.h"
#include "tests/cpp/expect.h"
#include "tests/cpp/tiny_ops.h"

using namespace facula;  // NOLINT
using namespace tiny;    // NOLINT

namespace {

void backward(const Tensor& root, BackwardOptions options = {}, TensorList inputs = {}) {
  run_backward(std::span<const Tensor>(&root, 1), {}, inputs, options);
}
std::vector<Tensor> grad(const Tensor& root, std::vector<Tensor> inputs, BackwardOptions options = {}) {
  options.accumulate = false;
  return run_backward(std::span<const Tensor>(&root, 1), {}, inputs, options);
}
constexpr BackwardOptions kKeep{.keep_graph = true};
constexpr BackwardOptions kCreate{.keep_graph = true, .create_graph = true};

struct Hook final : NodeHook {
  std::function<void(std::vector<Tensor>&)> f;
  explicit Hook(std::function<void(std::vector<Tensor>&)> fn) : f(std::move(fn)) {}
  void run(std::vector<Tensor>& grads) override { f(grads); }
};
std::shared_ptr<Hook> hook(std::function<void(std::vector<Tensor>&)> f) { return std::make_shared<Hook>(std::move(f)); }

void basics() {
  const Tensor a = leaf(of({2, 3})), b = leaf(of({5, 7}));
  const Tensor y = sum(mul(add(a, b), b));
  CHECK(!is_leaf(y) && is_leaf(a) && y.requires_grad());
  CHECK(std::string(grad_fn(y)->name()) == "SumTo");
  backward(y);
  CHECK_VALUES(grad_of(a), {5, 7});
  CHECK_VALUES(grad_of(b), {12, 17});
  backward(sum(mul(a, b)));
  CHECK_VALUES(grad_of(a), {10, 14});
  CHECK_VALUES(grad_of(b), {14, 20});
  // x enters one node twice, and broadcasting is undone.
  const Tensor x = leaf(full({}, 3));
  backward(sum(mul(mul(x, x), b)));
  CHECK_VALUES(grad_of(x), {72});
  CHECK(grad_of(x).dim() == 0);
  // A leaf as the root.
  const Tensor l = leaf(full({}, 1));
  backward(l);
  CHECK_VALUES(grad_of(l), {1});
  {
    GradMode off(false);
    CHECK(!mul(a, b).requires_grad());
  }
  CHECK(!detach(y).requires_grad() && detach(a).storage() == a.storage());
}

void root_errors() {
  const Tensor a = leaf(of({2, 3}));
  CHECK_FAILS(backward(of({1})), "element 0 of tensors does not require grad and does not have a grad_fn");
  CHECK_FAILS(backward(mul(a, a)), "only for scalar outputs", "(2,)");
  const Tensor y = mul(a, a), bad = of({1, 2, 3});
  CHECK_FAILS(run_backward(std::span(&y, 1), std::span(&bad, 1), {}, {}), "Mismatch in shape", "(3,)", "(2,)");
  CHECK_FAILS(grad(sum(y), {of({1})}), "does not require grad");
  CHECK_FAILS(grad(sum(y), {leaf(of({1}))}), "not have been used in the graph");
  const auto r = grad(sum(mul(a, a)), {leaf(of({1})), a}, {.allow_unused = true});
  CHECK(!r[0].defined());
  CHECK_VALUES(r[1], {4, 6});
  CHECK_FAILS(set_requires_grad(y, false), "leaf");
  CHECK_FAILS(set_requires_grad(make_empty({1}, ScalarType::Int64), true), "int64");
  CHECK_FAILS(set_grad(a, of({1})), "shape (1,)", "(2,)");
}

void graph_kept_and_freed() {
  const Tensor a = leaf(of({2, 3}));
  const Tensor y = sum(mul(a, a));
  backward(y, kKeep);
  backward(y, kKeep);
  CHECK_VALUES(grad_of(a), {8, 12});
  backward(y);
  CHECK_VALUES(grad_of(a), {12, 18});
  CHECK_FAILS(backward(y), "Mul", "second time", "retain_graph=True");
  CHECK_VALUES(grad_of(a), {12, 18});
}

void double_backward() {
  const Tensor x = leaf(of({2, 3}));
  const Tensor y = sum(mul(mul(x, x), exp(x)));  // x^2 e^x
  const Tensor g = grad(y, {x}, kCreate)[0];     // (x^2 + 2x) e^x
  CHECK(g.requires_grad());
  CHECK_VALUES(g, {8 * std::exp(2), 15 * std::exp(3)});
  const Tensor h = grad(sum(g), {x}, kCreate)[0];  // (x^2 + 4x + 2) e^x
  CHECK_VALUES(h, {14 * std::exp(2), 23 * std::exp(3)});
  CHECK_VALUES(grad(sum(h), {x})[0], {22 * std::exp(2), 33 * std::exp(3)});  // (x^2 + 6x + 6) e^x
}

void accumulation() {
  // A gradient that nobody else holds becomes .grad; a shared one is copied.
  const Tensor a = leaf(of({1, 2})), b = leaf(of({3, 4}));
  backward(sum(add(a, b)));
  CHECK(grad_of(a).storage() != grad_of(b).storage());
  CHECK(grad_of(a).is_contiguous() && !grad_of(a).is_view());
  const void* memory = grad_of(a).raw();
  backward(sum(add(a, b)));
  CHECK(grad_of(a).raw() == memory);
  CHECK_VALUES(grad_of(a), {2, 2});
  // The caller's own gradient is never taken.
  const Tensor g = of({1, 1}), c = leaf(of({1, 2}));
  run_backward(std::span(&c, 1), std::span(&g, 1), {}, {});
  CHECK(grad_of(c).storage() != g.storage());
  // With create_graph: out of place, so that an older .grad stays as it was.
  const Tensor old = grad_of(a);
  backward(sum(mul(a, a)), kCreate);
  CHECK_VALUES(old, {2, 2});
  CHECK_VALUES(grad_of(a), {4, 6});
  CHECK(grad_of(a).requires_grad());
  set_grad(a, {});  // its history leads back to `a`
  // backward(inputs=...) leaves other leaves alone and works for computed tensors.
  const Tensor p = leaf(of({1, 2})), q = leaf(of({3, 4}));
  const Tensor m = mul(p, q);
  const Tensor chosen[] = {m, q};
  backward(sum(mul(m, q)), {}, chosen);
  CHECK_VALUES(grad_of(m), {3, 4});
  CHECK_VALUES(grad_of(q), {6, 16});
  CHECK(!grad_of(p).defined());
}

void captures() {
  const Tensor a = leaf(of({2, 3})), b = leaf(of({5, 7}));
  const Tensor m = mul(a, b);
  const Tensor y = sum(mul(m, m));
  auto r = grad(y, {m, a, m, y}, kKeep);
  CHECK_VALUES(r[0], {20, 42});
  CHECK_VALUES(r[1], {100, 294});
  CHECK_VALUES(r[2], {20, 42});
  CHECK_VALUES(r[3], {1});
  CHECK(!grad_of(a).defined() && !grad_of(b).defined());
  // What is not behind a chosen input is not run: m's own saved tensors survive.
  const Tensor y2 = sum(mul(m, m));
  grad(y2, {m});
  grad(m.dim() == 1 ? sum(m) : m, {a});
}

void versions() {
  const Tensor a = leaf(of({2, 3}));
  const Tensor m = mul(a, of({1, 1}));
  const Tensor y = sum(mul(m, a));
  add_(m, of({1, 1}));
  CHECK_FAILS(backward(y), "Mul", "`self`", "at version 0", "now at version 1", "`add_` changed it", "x = x.op(...)",
              "clone");
  const Tensor e = exp(mul(a, a));
  const Tensor s = sum(e);
  mul_(e, of({2, 2}));
  CHECK_FAILS(backward(s), "Exp", "its output `result`");
  // Through a detached tensor, which shares the version.
  const Tensor k = of({1, 1});
  const Tensor z = sum(mul(a, k));
  add_(detach(k), of({1, 1}));
  CHECK_FAILS(backward(z), "`other`");
  tls_state.anomaly = true;
  core_operators().location = [] { return std::string("train.py:12"); };
  detail::name_writer = [](WriterName writer) {
    return std::string_view(writer.op) == "add_" ? "add_ at train.py:12" : "another";
  };
  {
    const Tensor n = mul(a, of({1, 1}));
    const Tensor w = sum(mul(n, a));
    add_(n, of({1, 1}));
    CHECK_FAILS(backward(w), "`add_` at train.py:12", "(made at train.py:12)");
  }
  tls_state.anomaly = false;
  core_operators().location = nullptr;
  detail::name_writer = nullptr;
  CHECK_FAILS(add_(a, of({1, 1})), "add_", "leaf");
  CHECK_FAILS(add_(select(a, 0), full({}, 1)), "add_", "view of a leaf");
  GradMode off(false);
  add_(a, of({1, 1}));
}

void inplace() {
  const Tensor a = leaf(of({2, 3}));
  const Tensor m = mul(a, of({2, 2}));
  mul_(m, clone(m));  // 4 a^2
  exp_(mul(m, of({0, 0})));
  backward(sum(m));
  CHECK_VALUES(grad_of(a), {16, 24});
  const Tensor x = leaf(of({1, 2}));
  const Tensor e = mul(x, x);
  exp_(e);
  const Tensor g = grad(sum(e), {x}, kCreate)[0];  // 2x e^(x^2)
  CHECK_VALUES(g, {2 * std::exp(1), 4 * std::exp(4)});
  CHECK_VALUES(grad(sum(g), {x})[0], {6 * std::exp(1), 18 * std::exp(4)});
}

void view_changes() {
  // In-place on a view: the base's gradient splits.
  const Tensor a = leaf(of({1, 2, 3, 4}));
  const Tensor b = mul(a, of({1, 1, 1, 1}));
  const Tensor v = slice(b, 1, 3);
  mul_(v, of({10, 10}));
  CHECK(std::string(grad_fn(b)->name()) == "CopySlices");
  CHECK(std::string(grad_fn(v)->name()) == "ViewOfBase");
  backward(sum(mul(b, b)), kKeep);
  CHECK_VALUES(grad_of(a), {2, 400, 600, 8});
  // The view itself, whose history was made anew.
  CHECK_VALUES(grad(sum(v), {a}, kKeep)[0], {0, 10, 10, 0});
  // A second view of the same base, taken before the change, and a view of a view.
  const Tensor x = leaf(of({1, 2, 3, 4}));
  const Tensor base = mul(x, x);
  const Tensor left = slice(base, 0, 3), right = slice(base, 1, 4);
  const Tensor inner = slice(right, 0, 1);  // element 1
  mul_(left, of({2, 3, 4}));
  CHECK_VALUES(grad(sum(right), {x}, kKeep)[0], {0, 12, 24, 8});
  CHECK_VALUES(grad(sum(inner), {x}, kKeep)[0], {0, 12, 0, 0});
  mul_(inner, clone(inner));  // (3 x1^2)^2
  CHECK_VALUES(grad(sum(base), {x}, kKeep)[0], {4, 36 * 8, 24, 8});
  CHECK_VALUES(grad(sum(left), {x}, kKeep)[0], {4, 36 * 8, 24, 0});
  // To second order: d/dx of the gradient above.
  const Tensor g = grad(sum(base), {x}, kCreate)[0];
  CHECK_VALUES(grad(sum(g), {x})[0], {4, 108 * 4, 8, 2});
}

void views_after_base_changes() {
  const Tensor a = leaf(of({1, 2, 3}));
  const Tensor b = mul(a, a);
  const Tensor v = slice(b, 0, 2);
  retain_grad(v);
  mul_(b, of({5, 5, 5}));
  CHECK(std::string(grad_fn(v)->name()) == "ViewOfBase");
  backward(sum(v));
  CHECK_VALUES(grad_of(a), {10, 20, 0});
  CHECK_VALUES(grad_of(v), {1, 1});
  // Neither required grad when the view was made.
  const Tensor plain = of({1, 2, 3}), w = leaf(of({4, 5}));
  const Tensor part = slice(plain, 0, 2), other = slice(plain, 1, 3);
  CHECK(!part.requires_grad());
  copy_(part, w);
  CHECK(plain.requires_grad() && part.requires_grad() && other.requires_grad() && !is_leaf(plain) && !is_leaf(other));
  backward(sum(mul(other, of({10, 100}))), kKeep);
  CHECK_VALUES(grad_of(w), {0, 10});
  backward(sum(mul(plain, plain)));
  CHECK_VALUES(grad_of(w), {8, 20});
  // An expanded view, and one whose windows overlap, of a base changed in place.
  const Tensor x = leaf(of({1, 2, 3}));
  const Tensor c = mul(x, of({1, 1, 1}));
  const Tensor wide = as_strided(c, {2, 3}, {0, 1}, 0), windows = as_strided(c, {2, 2}, {1, 1}, 0);
  mul_(c, of({2, 2, 2}));
  CHECK_VALUES(grad(sum(wide), {x}, kKeep)[0], {4, 4, 4});
  CHECK_VALUES(grad(sum(windows), {x}, kKeep)[0], {2, 4, 2});
}

void several_outputs() {
  const Tensor a = leaf(make_empty({3, 2}, ScalarType::Float64));
  std::fill_n(a.data<double>(), 6, 2.0);
  auto rows = unbind(mul(a, a));
  backward(sum(rows[1]), kKeep);  // the other outputs have no gradient
  CHECK_VALUES(grad_of(a), {0, 0, 4, 4, 0, 0});
  set_grad(a, {});
  mul_(rows[2], clone(rows[0]));  // a0^2 a2^2
  backward(add(sum(rows[2]), sum(rows[0])));
  CHECK_VALUES(grad_of(a), {20, 20, 0, 0, 16, 16});
}

void no_grad_views() {
  const Tensor a = leaf(of({1, 2, 3}));
  const Tensor b = mul(a, a);
  Tensor v;
  {
    GradMode off(false);
    v = slice(b, 0, 2);
    CHECK(!v.requires_grad());
    add_(v, of({0, 0}));
  }
  CHECK_FAILS(mul_(v, leaf(of({1, 1}))), "mul_", "no_grad");
  add_(v, of({0, 0}));  // nothing to differentiate
}

void complex_views() {
  const Tensor a = leaf(of({1, 2, 3, 4}));
  const Tensor z = reinterpret(as_strided(mul(a, a), {2, 2}, {2, 1}, 0));  // 2 complex numbers
  const Tensor r = reinterpret(z);
  mul_(select(r, 0), of({10, 100}));
  CHECK_VALUES(grad(sum(r), {a}, kKeep)[0], {20, 400, 6, 8});
  const Tensor g = grad(sum(r), {a}, kCreate)[0];
  CHECK_VALUES(grad(sum(g), {a})[0], {20, 200, 2, 2});
  const auto saved = core_operators().view_as_real;
  const Tensor base = make_empty({2}, ScalarType::Complex128);
  std::fill_n(base.data<complex128>(), 2, complex128(1));
  const Tensor re = reinterpret(base);
  core_operators().view_as_real = nullptr;
  CHECK_FAILS(copy_(re, leaf(as_strided(of({1, 2, 3, 4}), {2, 2}, {2, 1}, 0))), "copy_",
              "float64 view of a complex128");
  core_operators().view_as_real = saved;
}

void hooks() {
  const Tensor a = leaf(of({2, 3}));
  const Tensor m = mul(a, a);
  std::string order;
  retain_grad(m);
  auto doubled = hook([&](std::vector<Tensor>& g) {
    order += 't';
    g[0] = mul(g[0], of({2, 2}));
  });
  add_tensor_hook(m, doubled);
  add_tensor_hook(a, hook([&](std::vector<Tensor>&) { order += 'l'; }));
  add_post_accumulate_hook(a, hook([&](std::vector<Tensor>& t) {
                             order += 'p';
                             CHECK(t[0].is_same(a));
                             if (order == "t<>lp") CHECK_VALUES(grad_of(a), {8, 12});
                           }));
  const auto node = grad_fn(m);
  node->add_pre_hook(hook([&](std::vector<Tensor>&) { order += '<'; }));
  node->add_post_hook(hook([&](std::vector<Tensor>& g) {
    order += '>';
    CHECK(g.size() == 2);
  }));
  backward(sum(m), kKeep);
  CHECK(order == "t<>lp");
  CHECK_VALUES(grad_of(m), {2, 2});
  // A hook that is removed, and a hook on a leaf that is captured.
  doubled->removed = true;
  add_tensor_hook(a, hook([](std::vector<Tensor>& g) { g[0] = mul(g[0], of({-1, 1})); }));
  CHECK_VALUES(grad(sum(m), {a}, kKeep)[0], {-4, 6});
  // Wrong replacements are found.
  add_tensor_hook(m, hook([](std::vector<Tensor>& g) { g[0] = of({1, 2, 3}); }));
  CHECK_FAILS(backward(sum(m)), "invalid gradient", "(3,)", "(2,)");
  CHECK_FAILS(add_tensor_hook(of({1}), doubled), "does not require");
  // A tensor that retains its gradient may die before the backward pass.
  Tensor y;
  {
    const Tensor n = mul(a, a);
    retain_grad(n);
    y = sum(n);
  }
  backward(y, {}, {});
}

struct Calls final : CustomNode {
  std::function<void(std::span<const Tensor>, std::span<Tensor>)> f;
  const char* name() const override { return "Calls"; }
  void backward(std::span<const Tensor> g, std::span<Tensor> r) override { f(g, r); }
};
Tensor call(const Tensor& x, std::function<void(std::span<const Tensor>, std::span<Tensor>)> f) {
  auto node = make_intrusive<Calls>();
  node->f = std::move(f);
  add_edge(*node, x);
  Tensor out;
  {
    GradMode off(false);
    out = clone(x);
  }
  finish_function(node, std::span(&x, 1), std::span(&out, 1), true);
  return out;
}

void nested() {
  const Tensor a = leaf(full({}, 2));
  // A backward pass within a node, as checkpointing does it.
  const Tensor y = call(mul(a, a), [](std::span<const Tensor> g, std::span<Tensor> r) {
    GradMode on(true);
    const Tensor t = leaf(full({}, 3));
    backward(mul(mul(t, t), t));
    r[0] = mul(g[0], grad_of(t));
  });
  backward(y);
  CHECK_VALUES(grad_of(a), {27 * 4});
  // Very deep.
  std::function<Tensor(const Tensor&, int)> deep = [&](const Tensor& x, int depth) -> Tensor {
    return call(x, [&deep, depth](std::span<const Tensor> g, std::span<Tensor> r) {
      GradMode on(true);
      const Tensor t = leaf(full({}, 1));
      if (depth > 0) backward(deep(t, depth - 1));
      r[0] = g[0];
    });
  };
  backward(deep(a, 2000));
  CHECK_VALUES(grad_of(a), {109});
}

void exceptions() {
  const Tensor a = leaf(of({1, 2}));
  const Tensor y = sum(call(mul(a, a), [](auto, auto) { raise(ErrorKind::Value, "out of luck"); }));
  CHECK_FAILS(backward(y, kKeep), "out of luck");
  CHECK_FAILS(backward(y, kKeep), "out of luck");
  CHECK(!tls_state.excluded && tls_state.grad_enabled);
  backward(sum(mul(a, a)));
  CHECK_VALUES(grad_of(a), {2, 4});
  const Tensor z = sum(call(a, [](auto, std::span<Tensor> r) { r[0] = of({1, 2, 3}); }));
  CHECK_FAILS(backward(z), "Calls returned an invalid gradient at index 0", "(3,)", "(2,)");
}

void custom_functions() {
  const Tensor a = leaf(of({2, 3}));
  const Tensor m = mul(a, of({1, 1}));
  struct Square final : CustomNode {
    const char* name() const override { return "Square"; }
    void backward(std::span<const Tensor> g, std::span<Tensor> r) override {
      const auto saved = saved_tensors();
      CHECK(g.size() == 3 && g[1].defined() && needs_input_grad(0));
      r[0] = mul(add(g[0], g[1]), mul(of({2, 2}), saved[0]));
    }
  };
  auto node = make_intrusive<Square>();
  add_edge(*node, m);
  Tensor out[3];
  {
    GradMode off(false);
    out[0] = mul(m, m);
    out[1] = m;  // an input comes back
    out[2] = of({0, 0});
    node->to_save = {m, out[0]};
    node->non_differentiable = {out[2]};
  }
  finish_function(node, std::span(&m, 1), out, true);
  CHECK(out[0].requires_grad() && !out[2].requires_grad() && !out[1].is_same(m) && grad_fn(out[1]) == node);
  backward(sum(out[0]), kKeep);
  CHECK_VALUES(grad_of(a), {4, 6});
  CHECK_FAILS(mul_(out[1], of({1, 1})), "custom function");
  CHECK(node->saved_tensors().size() == 2);
  Released released;
  node->release_saved(released);
  CHECK_FAILS(node->saved_tensors(), "second time");
}

void forward_mode() {
  const Tensor a = leaf(of({1, 2, 3}));
  const Tensor x = of({1, 2, 3});
  CHECK_FAILS(set_tangent(x, of({1, 1, 1})), "dual level");
  enter_dual_level();
  CHECK_FAILS(enter_dual_level(), "one level");
  set_tangent(x, of({1, 1, 1}));
  CHECK(has_tangent(x) && !x.requires_grad() && !needs_grad(x) && (layers_of(x) & layer_bit(Layer::Autograd)));
  CHECK_FAILS(set_tangent(a, of({1})), "shape (1,)");
  set_tangent(x, {});
  CHECK(!has_tangent(x) && !layers_of(x));
  set_tangent(a, of({1, 1, 1}));
  set_tangent(a, {});
  CHECK(layers_of(a) != 0);
  // A view whose base gets a tangent through another view.
  const Tensor left = slice(x, 0, 2), right = slice(x, 1, 3);
  set_tangent_inplace(left, of({7, 8}));
  CHECK_VALUES(tangent_of(x), {7, 8, 0});
  CHECK_VALUES(tangent_of(right), {8, 0});
  Tensor outlives = of({1});
  set_tangent(outlives, of({1}));
  {
    const Tensor dies = of({1});
    set_tangent(dies, of({1}));
  }
  {
    GradMode off(false);
    CHECK(active(x));
  }
  std::function<void(int)> deep = [&](int depth) {
    const Tensor l = leaf(full({}, 1));
    backward(call(l, [&deep, depth](std::span<const Tensor> g, std::span<Tensor> r) {
      GradMode on(true);
      depth > 0 ? deep(depth - 1) : set_tangent(full({}, 1), full({}, 1));
      r[0] = g[0];
    }));
  };
  deep(100);
  exit_dual_level();
  CHECK(!has_tangent(x) && !layers_of(x) && !has_tangent(outlives) && !layers_of(left));
}

void long_chain(int n) {
  const Tensor a = leaf(full({}, 1)), one = full({}, 1);
  Tensor x = a;
  for (int i = 0; i < n; ++i) x = mul(x, one);
  backward(x);
  CHECK_VALUES(grad_of(a), {1});
  x.reset();
  // Freed without having run, and through saved tensors.
  Tensor y = a;
  for (int i = 0; i < n; ++i) y = mul(y, y);
  y.reset();
  // grad() with a chosen input walks the graph first.
  Tensor z = a;
  for (int i = 0; i < n; ++i) z = add(z, one);
  CHECK_VALUES(grad(z, {a})[0], {1});
}

void threads() {
  const Tensor shared = leaf(of({1, 1}));
  std::vector<std::thread> pool;
  for (int t = 0; t < 4; ++t) {
    pool.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const Tensor own = leaf(of({1, 2}));
        backward(sum(mul(own, shared)));
        CHECK_VALUES(grad_of(own), {1, 1});
      }
    });
  }
  for (auto& t : pool) t.join();
  CHECK_VALUES(grad_of(shared), {800, 1600});
  // One graph, two threads, one of which frees it: either result or the sentence.
  for (int round = 0; round < 100; ++round) {
    const Tensor a = leaf(of({1, 2}));
    Tensor y = mul(a, a);
    for (int i = 0; i < 20; ++i) y = mul(y, of({1, 1}));
    const Tensor s = sum(y);
    std::atomic<int> done{0};
    std::vector<std::thread> two;
    for (int t = 0; t < 2; ++t) {
      two.emplace_back([&] {
        try {
          backward(s);
          ++done;
        } catch (const Error& e) {
          CHECK(std::strstr(e.what(), "second time") != nullptr);
        }
      });
    }
    for (auto& t : two) t.join();
  }
}

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void bench() {
  const Tensor a = leaf(full({}, 1)), one = full({}, 1), w = leaf(full({}, 2));
  const auto best = [](int calls, const char* what, double per, auto f) {
    double least = 1e9;
    for (int r = 0; r < 30; ++r) {
      const double t = seconds();
      for (int i = 0; i < calls; ++i) f();
      least = std::min(least, (seconds() - t) / calls);
    }
    std::printf("%-58s %8.1f ns\n", what, least / per * 1e9);
  };
  const Tensor plain = full({}, 2);
  best(20000, "mul, not recorded", 1, [&] { mul(plain, one); });
  best(20000, "mul, recorded (one leaf), and freed", 1, [&] { mul(w, one); });
  best(20000, "mul, recorded (two leaves), and freed", 1, [&] { mul(w, a); });
  const auto chain = [&](int n) {
    Tensor x = a;
    for (int i = 0; i < n; ++i) x = mul(x, one);
    return x;
  };
  best(100, "chain of 1000: record and free, a node", 1000, [&] { chain(1000); });
  best(100, "chain of 1000: record, backward, free, a node", 1000, [&] { backward(chain(1000)); });
  const Tensor kept = chain(1000);
  best(100, "chain of 1000: backward alone (keep_graph), a node", 1000, [&] { backward(kept, kKeep); });
  best(2000, "sum(mul(w, b)).backward(), all of it", 1, [&] { backward(sum(mul(w, one))); });
}

}  // namespace

int main(int argc, char** argv) {
  install_roles();
  if (argc > 1 && std::string(argv[1]) == "bench") {
    bench();
    return 0;
  }
  const auto run = [](const char* name, auto f) {
    try {
      f();
    } catch (const std::exception& e) {
      ++g_failures;
      std::printf("%s: %s\n", name, e.what());
    }
  };
  run("basics", basics);
  run("root_errors", root_errors);
  run("graph_kept_and_freed", graph_kept_and_freed);
  run("double_backward", double_backward);
  run("accumulation", accumulation);
  run("captures", captures);
  run("versions", versions);
  run("inplace", inplace);
  run("view_changes", view_changes);
  run("views_after_base_changes", views_after_base_changes);
  run("several_outputs", several_outputs);
  run("no_grad_views", no_grad_views);
  run("complex_views", complex_views);
  run("hooks", hooks);
  run("nested", nested);
  run("exceptions", exceptions);
  run("custom_functions", custom_functions);
  run("forward_mode", forward_mode);
  run("threads", threads);
  run("long_chain", [] { long_chain(1000000); });
  std::printf(g_failures == 0 ? "autograd: ok\n" : "autograd: %d failures\n", g_failures);
  return g_failures != 0;
}
