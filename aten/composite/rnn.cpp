// Recurrent layers and their gradients, step by step in other operators.
#include "aten/recurrent.h"
#include "facula/kernels.h"
#include "facula/ops.h"

namespace facula::composite {
namespace {

Tensor one_minus(const Tensor& x) { return ops::sub(wrapped_number(1.0), x); }
// x (1 - x), the slope of a sigmoid of value x; 1 - x^2, that of tanh.
Tensor sigmoid_slope(const Tensor& x) { return ops::mul(x, one_minus(x)); }
Tensor tanh_slope(const Tensor& x) { return one_minus(ops::mul(x, x)); }

// Gate k of rows that hold gates of n values.
Tensor gate(const Tensor& rows, int64_t k, int64_t n) { return ops::narrow(rows, 1, k * n, n); }
Tensor first_rows(const Tensor& t, int64_t count) { return t.size(0) == count ? t : ops::narrow(t, 0, 0, count); }
// `rows` in place of the first rows of t.
Tensor with_first_rows(const Tensor& t, const Tensor& rows) {
  const int64_t count = rows.size(0);
  if (count == t.size(0)) return rows;
  return ops::cat(std::vector<Tensor>{rows, ops::narrow(t, 0, count, t.size(0) - count)});
}
Tensor rows_at(const Tensor& t, const RecurrentSteps& steps, int64_t time) {
  return ops::narrow(t, 0, steps.start(time), steps.size(time));
}
Tensor product_with(const Tensor& h, const Tensor& weight) { return ops::mm(h, ops::t(weight)); }

// One tensor a time, in the order of the times whatever the order of the steps.
struct Rows {
  explicit Rows(const RecurrentSteps& steps) : at(static_cast<size_t>(steps.count())) {}
  Tensor& operator[](int64_t t) { return at[static_cast<size_t>(t)]; }
  const Tensor& operator[](int64_t t) const { return at[static_cast<size_t>(t)]; }
  Tensor joined() const { return ops::cat(at); }
  std::vector<Tensor> at;
};

struct Lstm {
  Lstm(const Tensor& gates, const Tensor& hx, const Tensor& cx, const Tensor& weight, const Tensor& projection,
       const RecurrentSteps& steps)
      : i(steps),
        f(steps),
        g(steps),
        o(steps),
        before(steps),
        state(steps),
        cell(steps),
        squashed(steps),
        out(steps),
        h(hx),
        c(cx) {
    const int64_t n = cx.size(1);
    for (int64_t k = 0; k < steps.count(); ++k) {
      const int64_t t = steps.time(k);
      state[t] = first_rows(h, steps.size(t));
      before[t] = first_rows(c, steps.size(t));
      const Tensor sum = ops::add(rows_at(gates, steps, t), product_with(state[t], weight));
      i[t] = ops::sigmoid(gate(sum, 0, n));
      f[t] = ops::sigmoid(gate(sum, 1, n));
      g[t] = ops::tanh(gate(sum, 2, n));
      o[t] = ops::sigmoid(gate(sum, 3, n));
      cell[t] = ops::add(ops::mul(f[t], before[t]), ops::mul(i[t], g[t]));
      squashed[t] = ops::tanh(cell[t]);
      out[t] = ops::mul(o[t], squashed[t]);
      if (projection.defined()) out[t] = product_with(out[t], projection);
      h = with_first_rows(h, out[t]);
      c = with_first_rows(c, cell[t]);
    }
  }
  Rows i, f, g, o, before, state, cell, squashed, out;
  Tensor h, c;
};

struct Gru {
  Gru(const Tensor& gates, const Tensor& hx, const Tensor& weight, const Tensor& bias, const RecurrentSteps& steps)
      : r(steps), z(steps), m(steps), share(steps), state(steps), out(steps), h(hx) {
    const int64_t n = hx.size(1);
    for (int64_t k = 0; k < steps.count(); ++k) {
      const int64_t t = steps.time(k);
      state[t] = first_rows(h, steps.size(t));
      const Tensor x = rows_at(gates, steps, t);
      Tensor s = product_with(state[t], weight);
      if (bias.defined()) s = ops::add(s, bias);
      r[t] = ops::sigmoid(ops::add(gate(x, 0, n), gate(s, 0, n)));
      z[t] = ops::sigmoid(ops::add(gate(x, 1, n), gate(s, 1, n)));
      share[t] = gate(s, 2, n);
      m[t] = ops::tanh(ops::add(gate(x, 2, n), ops::mul(r[t], share[t])));
      out[t] = ops::add(m[t], ops::mul(z[t], ops::sub(state[t], m[t])));
      h = with_first_rows(h, out[t]);
    }
  }
  Rows r, z, m, share, state, out;
  Tensor h;
};

struct Rnn {
  Rnn(const Tensor& gates, const Tensor& hx, const Tensor& weight, bool relu, const RecurrentSteps& steps)
      : state(steps), out(steps), h(hx) {
    for (int64_t k = 0; k < steps.count(); ++k) {
      const int64_t t = steps.time(k);
      state[t] = first_rows(h, steps.size(t));
      const Tensor sum = ops::add(rows_at(gates, steps, t), product_with(state[t], weight));
      out[t] = relu ? ops::relu(sum) : ops::tanh(sum);
      h = with_first_rows(h, out[t]);
    }
  }
  Rows state, out;
  Tensor h;
};

Tensor joined_gates(std::vector<Tensor> gates) { return ops::cat(gates, 1); }

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> lstm_layer(const Tensor& gates, const Tensor& hx, const Tensor& cx,
                                                              const Tensor& weight, IntList batch_sizes, bool reverse) {
  const RecurrentSteps steps(batch_sizes, reverse);
  const Lstm all(gates, hx, cx, weight, {}, steps);
  const Tensor act = joined_gates({all.i.joined(), all.f.joined(), all.g.joined(), all.o.joined()});
  return {all.out.joined(), all.h, all.c, act, all.cell.joined()};
}

std::tuple<Tensor, Tensor, Tensor> lstm_projected(const Tensor& gates, const Tensor& hx, const Tensor& cx,
                                                  const Tensor& weight, const Tensor& projection, IntList batch_sizes,
                                                  bool reverse) {
  const RecurrentSteps steps(batch_sizes, reverse);
  const Lstm all(gates, hx, cx, weight, projection, steps);
  return {all.out.joined(), all.h, all.c};
}

// From the inputs alone, so that it can be differentiated again.
std::tuple<Tensor, Tensor, Tensor, Tensor> lstm_layer_backward(const Tensor& grad_output, const Tensor& grad_hy,
                                                               const Tensor& grad_cy, const Tensor& gates,
                                                               const Tensor& hx, const Tensor& cx, const Tensor& weight,
                                                               const Tensor&, const Tensor&, const Tensor&,
                                                               IntList batch_sizes, bool reverse,
                                                               const std::vector<bool>&) {
  const RecurrentSteps steps(batch_sizes, reverse);
  const Lstm s(gates, hx, cx, weight, {}, steps);
  Tensor dh = grad_hy, dc = grad_cy;
  Rows dgates(steps);
  for (int64_t k = steps.count() - 1; k >= 0; --k) {
    const int64_t t = steps.time(k);
    const Tensor d = ops::add(first_rows(dh, steps.size(t)), rows_at(grad_output, steps, t));
    const Tensor e = ops::add(first_rows(dc, steps.size(t)), ops::mul(ops::mul(d, s.o[t]), tanh_slope(s.squashed[t])));
    dgates[t] = joined_gates({ops::mul(ops::mul(e, s.g[t]), sigmoid_slope(s.i[t])),
                              ops::mul(ops::mul(e, s.before[t]), sigmoid_slope(s.f[t])),
                              ops::mul(ops::mul(e, s.i[t]), tanh_slope(s.g[t])),
                              ops::mul(ops::mul(d, s.squashed[t]), sigmoid_slope(s.o[t]))});
    dh = with_first_rows(dh, ops::mm(dgates[t], weight));
    dc = with_first_rows(dc, ops::mul(e, s.f[t]));
  }
  const Tensor all = dgates.joined();
  return {all, dh, dc, ops::mm(ops::t(all), s.state.joined())};
}

std::tuple<Tensor, Tensor, Tensor> gru_layer(const Tensor& gates, const Tensor& hx, const Tensor& weight,
                                             const Tensor& bias, IntList batch_sizes, bool reverse) {
  const RecurrentSteps steps(batch_sizes, reverse);
  const Gru all(gates, hx, weight, bias, steps);
  const Tensor act = joined_gates({all.r.joined(), all.z.joined(), all.m.joined(), all.share.joined()});
  return {all.out.joined(), all.h, act};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> gru_layer_backward(const Tensor& grad_output, const Tensor& grad_hy,
                                                              const Tensor& gates, const Tensor& hx,
                                                              const Tensor& weight, const Tensor& bias, const Tensor&,
                                                              const Tensor&, IntList batch_sizes, bool reverse,
                                                              const std::vector<bool>&) {
  const RecurrentSteps steps(batch_sizes, reverse);
  const Gru s(gates, hx, weight, bias, steps);
  Tensor dh = grad_hy;
  Rows dgates(steps), shares(steps);
  for (int64_t k = steps.count() - 1; k >= 0; --k) {
    const int64_t t = steps.time(k);
    const Tensor d = ops::add(first_rows(dh, steps.size(t)), rows_at(grad_output, steps, t));
    const Tensor dm = ops::mul(ops::mul(d, one_minus(s.z[t])), tanh_slope(s.m[t]));
    const Tensor dz = ops::mul(ops::mul(d, ops::sub(s.state[t], s.m[t])), sigmoid_slope(s.z[t]));
    const Tensor dr = ops::mul(ops::mul(dm, s.share[t]), sigmoid_slope(s.r[t]));
    dgates[t] = joined_gates({dr, dz, dm});
    shares[t] = joined_gates({dr, dz, ops::mul(dm, s.r[t])});
    dh = with_first_rows(dh, ops::add(ops::mul(d, s.z[t]), ops::mm(shares[t], weight)));
  }
  const Tensor all = shares.joined();
  const Tensor grad_bias = bias.defined() ? ops::sum(all, IntList{0}, false) : Tensor();
  return {dgates.joined(), dh, ops::mm(ops::t(all), s.state.joined()), grad_bias};
}

std::tuple<Tensor, Tensor> rnn_layer(const Tensor& gates, const Tensor& hx, const Tensor& weight, IntList batch_sizes,
                                     bool reverse, bool relu) {
  const RecurrentSteps steps(batch_sizes, reverse);
  const Rnn all(gates, hx, weight, relu, steps);
  return {all.out.joined(), all.h};
}

std::tuple<Tensor, Tensor, Tensor> rnn_layer_backward(const Tensor& grad_output, const Tensor& grad_hy,
                                                      const Tensor& gates, const Tensor& hx, const Tensor& weight,
                                                      const Tensor&, IntList batch_sizes, bool reverse, bool relu,
                                                      const std::vector<bool>&) {
  const RecurrentSteps steps(batch_sizes, reverse);
  const Rnn s(gates, hx, weight, relu, steps);
  Tensor dh = grad_hy;
  Rows dgates(steps);
  for (int64_t k = steps.count() - 1; k >= 0; --k) {
    const int64_t t = steps.time(k);
    const Tensor d = ops::add(first_rows(dh, steps.size(t)), rows_at(grad_output, steps, t));
    const Tensor& y = s.out[t];
    const Tensor slope = relu ? ops::to_dtype(ops::gt(y, wrapped_number(0.0)), y.dtype()) : tanh_slope(y);
    dgates[t] = ops::mul(d, slope);
    dh = with_first_rows(dh, ops::mm(dgates[t], weight));
  }
  const Tensor all = dgates.joined();
  return {all, dh, ops::mm(ops::t(all), s.state.joined())};
}

}  // namespace facula::composite
