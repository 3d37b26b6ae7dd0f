// Scaled dot product attention by cuDNN, for half types and no mask of its own; other calls take the
// operator's formula over matrix products.
//
// The graphs are those that cuDNN knows as one kernel (NVIDIA cudnn-frontend,
// scaled_dot_product_flash_attention.h): operations, order and layouts of what lies between matter.
#include <array>
#include <cstring>
#include <limits>

#include "libs/cudnn.h"
#include "launch/kernels.h"
#include "launch/strided_iterator.h"

namespace facula::cuda {

namespace {

using Four = std::array<int64_t, 4>;

struct Problem {
  int64_t batch, heads, kv_heads, queries, keys, width, value_width;
  bool causal;
  int type;

  Four scores() const { return {batch, heads, queries, keys}; }
  Four row() const { return {batch, heads, queries, 1}; }
};
Four packed(const Four& s) { return {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1}; }
Four turned(const Four& s) { return {s[0], s[1], s[3], s[2]}; }

// What a plan depends on besides the problem: steps of the operands, which all have features side by side.
struct Laid {
  const FaculaTensor* t;
  Four sizes() const { return {t->sizes[0], t->sizes[1], t->sizes[2], t->sizes[3]}; }
  Four strides() const {
    Four s;
    int64_t step = 1;
    for (int d = 3; d >= 0; --d) {
      s[d] = t->sizes[d] == 1 && d < 3 ? step : t->strides[d];
      step = s[d] * t->sizes[d];
    }
    return s;
  }
};

// An operand as cuDNN reads it: features side by side, rows at whole vectors; else a dense copy.
class Operand {
 public:
  Operand(int32_t index, void* stream) : scratch_(index, stream), index_(index), stream_(stream) {}
  int32_t read(const FaculaTensor& t) {
    tensor_ = t;
    if (fits(t)) return FACULA_OK;
    const void* data = nullptr;
    FaculaTensor strided = t;
    strided.flags &= ~uint32_t{FACULA_CONTIGUOUS};
    FACULA_TRY(dense(strided, scratch_, index_, stream_, &data));
    return pack(data);
  }
  // Room for a result.
  int32_t room(const FaculaTensor& t) {
    tensor_ = t;
    if (fits(t)) return FACULA_OK;
    written_ = true;
    FACULA_TRY(scratch_.allocate(static_cast<size_t>(t.numel) * static_cast<size_t>(itemsize(t.dtype))));
    return pack(scratch_.data());
  }
  int32_t put(const FaculaTensor& t) const {
    return written_ ? write_back(t, tensor_.data, t.dtype, index_, stream_) : int32_t{FACULA_OK};
  }
  Laid laid() const { return {&tensor_}; }
  void* data() const { return tensor_.data; }

 private:
  static bool fits(const FaculaTensor& t) {
    if (!on_device(t) || reinterpret_cast<uintptr_t>(t.data) % 16 != 0 || t.strides[3] != 1) return false;
    for (int d = 0; d < 3; ++d) {
      if (t.sizes[d] != 1 && (t.strides[d] <= 0 || t.strides[d] % 8 != 0)) return false;
    }
    return true;
  }
  int32_t pack(const void* data) {
    const Four s = packed({tensor_.sizes[0], tensor_.sizes[1], tensor_.sizes[2], tensor_.sizes[3]});
    std::memcpy(strides_, s.data(), sizeof(strides_));
    tensor_.strides = strides_;
    tensor_.data = const_cast<void*>(data);
    return FACULA_OK;
  }
  Scratch scratch_;
  int32_t index_;
  void* stream_;
  FaculaTensor tensor_{};
  int64_t strides_[4] = {};
  bool written_ = false;
};

// Scores with what a query must not see at minus infinity; GREATER_EQUAL keeps row >= column.
int masked(Graph& g, const Problem& p, int scores, int lowest) {
  if (!p.causal) return scores;
  const Four s = p.scores(), at = packed(s);
  const int row = g.between(kGraphInt32, s, at), column = g.between(kGraphInt32, s, at);
  g.pointwise(kGraphIndex, {scores}, row, kGraphFloat, 2);
  g.pointwise(kGraphIndex, {scores}, column, kGraphFloat, 3);
  const int seen = g.between(kGraphBool, s, at), out = g.between(kGraphFloat, s, at);
  g.pointwise(kGraphGreaterEqual, {row, column}, seen, kGraphBool);
  g.pointwise(kGraphSelect, {scores, lowest, seen}, out);
  return out;
}

// Operands of the plan, in the order in which they are declared.
enum Forward : int { kQ, kK, kV, kOut, kStats, kScale, kLowest };

Plan forward_plan(const Device& device, const Problem& p, const std::array<Laid, 4>& x) {
  Graph g;
  const auto operand = [&](const Laid& t) { return g.tensor(p.type, t.sizes(), t.strides()); };
  const int q = operand(x[0]);
  const int k = g.tensor(p.type, turned(x[1].sizes()), turned(x[1].strides()));
  const int v = operand(x[2]), out = operand(x[3]);
  const int stats = g.tensor(kGraphFloat, p.row(), packed(p.row()));
  const int scale = g.number(4), lowest = g.number(4);
  const Four s = p.scores(), r = p.row();
  const auto wide = [&] { return g.between(kGraphFloat, s, packed(s)); };
  const auto line = [&] { return g.between(kGraphFloat, r, packed(r)); };
  const int raw = wide(), scaled = wide();
  g.matmul(q, k, raw);
  g.pointwise(kGraphMul, {raw, scale}, scaled);
  const int seen = masked(g, p, scaled, lowest);
  const int top = line(), less = wide(), weight = wide(), sum = line(), log = line();
  g.reduce(kGraphMax, seen, top);
  g.pointwise(kGraphSub, {seen, top}, less);
  g.pointwise(kGraphExp, {less}, weight);
  g.reduce(kGraphSum, weight, sum);
  g.pointwise(kGraphLog, {sum}, log);
  g.pointwise(kGraphAdd, {top, log}, stats);
  const int share = g.between(p.type, s, packed(s));
  g.pointwise(kGraphDiv, {weight, sum}, share);
  g.matmul(share, v, out);
  return make_plan(device, g, false);
}

enum Backward : int { kBq, kBk, kBv, kBout, kBgrad, kBstats, kDq, kDk, kDv, kBscale, kBlowest, kBone, kDots, kSumDq };

Plan backward_plan(const Device& device, const Problem& p, const std::array<Laid, 8>& x) {
  Graph g;
  const auto operand = [&](const Laid& t) { return g.tensor(p.type, t.sizes(), t.strides()); };
  const auto across = [&](const Laid& t) { return g.tensor(p.type, turned(t.sizes()), turned(t.strides())); };
  const Four s = p.scores(), r = p.row(), columns = turned(s);
  const Four columns_at = {packed(s)[0], packed(s)[1], 1, p.keys};
  const int q = operand(x[0]), k = across(x[1]), v = across(x[2]), out = operand(x[3]), grad = operand(x[4]);
  const int stats = g.tensor(kGraphFloat, r, packed(r));
  const int dq = operand(x[5]), dk = operand(x[6]), dv = operand(x[7]);
  const int scale = g.number(4), lowest = g.number(4), one = g.number(4);
  const Four rows = {p.batch, p.heads, p.queries, p.width}, values = {p.batch, p.heads, p.queries, p.value_width};
  const int dots = g.tensor(kGraphFloat, r, packed(r));  // of each row's output and gradient
  const int dq_sum = g.tensor(kGraphFloat, rows, packed(rows));
  const auto wide = [&] { return g.between(kGraphFloat, s, packed(s)); };

  const int products =
      g.between(kGraphFloat, values,
                Four{p.heads * p.queries * p.value_width, p.queries * p.value_width, p.heads * p.value_width, 1});
  const int dot = g.between(kGraphFloat, r, packed(r));
  g.pointwise(kGraphMul, {grad, out}, products);
  g.reduce(kGraphSum, products, dot);
  g.pointwise(kGraphMul, {dot, one}, dots);

  const int raw = wide(), scaled = wide(), less = wide();
  g.matmul(q, k, raw);
  g.pointwise(kGraphMul, {raw, scale}, scaled);
  g.pointwise(kGraphSub, {scaled, stats}, less);
  const int seen = masked(g, p, less, lowest), share = wide();
  g.pointwise(kGraphExp, {seen}, share);
  // over the heads of the query that share one of the keys
  const auto gather = [&](int from, int with, int to, int64_t width) {
    const int flat = g.between(p.type, columns, columns_at);
    g.reshape(from, flat);
    if (p.heads == p.kv_heads) {
      g.matmul(flat, with, to);
    } else {
      const Four full = {p.batch, p.heads, p.keys, width};
      const int each = g.between(p.type, full, packed(full));
      g.matmul(flat, with, each);
      g.reduce(kGraphSum, each, to);
    }
  };
  gather(share, grad, dv, p.value_width);

  const int dp = wide(), apart = wide(), slope = wide(), ds = wide();
  g.matmul(grad, v, dp);
  g.pointwise(kGraphSub, {dp, dots}, apart);
  g.pointwise(kGraphMul, {apart, share}, slope);
  g.pointwise(kGraphMul, {slope, scale}, ds);
  gather(ds, q, dk, p.width);

  const int keys = g.between(p.type, x[1].sizes(), x[1].strides());
  g.reshape(k, keys);
  g.matmul(ds, keys, dq_sum);
  g.pointwise(kGraphIdentity, {dq_sum}, dq);
  return make_plan(device, g, false);
}

bool read_problem(const FaculaCall* call, int first, Problem& p) {
  const FaculaTensor &q = tensor(call, first), &k = tensor(call, first + 1), &v = tensor(call, first + 2);
  if ((q.dtype != FACULA_FLOAT16 && q.dtype != FACULA_BFLOAT16) || k.dtype != q.dtype || v.dtype != q.dtype) {
    return false;
  }
  if (!absent(call, first + 3) || !on_device(q) || !on_device(k) || !on_device(v)) return false;
  p = {q.sizes[0], q.sizes[1], k.sizes[1], q.sizes[2], k.sizes[2], q.sizes[3], v.sizes[3], false, graph_type(q.dtype)};
  return p.width % 8 == 0 && p.value_width % 8 == 0 && q.numel > 0 && k.numel > 0 && v.numel > 0;
}

std::string key_of(const Problem& p, int kind, const Laid* operands, size_t count) {
  int64_t key[10 + 4 * 8] = {kind,   p.batch, p.heads,       p.kv_heads, p.queries,
                             p.keys, p.width, p.value_width, p.causal,   p.type};
  for (size_t i = 0; i < count; ++i) {
    const Four s = operands[i].strides();
    std::memcpy(key + 10 + 4 * i, s.data(), sizeof(s));
  }
  return std::string(reinterpret_cast<const char*>(key), (10 + 4 * count) * sizeof(int64_t));
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// attention(query, key, value, mask, is_causal, scale, output, logsumexp)
int32_t attention(void*, const FaculaCall* call) {
  Problem p;
  if (!read_problem(call, 0, p)) return FACULA_NOT_SUPPORTED;
  p.causal = call->args[4].at.i != 0;
  const FaculaTensor &out = result(call, 0), &stats = result(call, 1);
  if (!is_dense(stats) || stats.dtype != FACULA_FLOAT32) return FACULA_NOT_SUPPORTED;
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  Operand q(call->index, call->stream), k(call->index, call->stream), v(call->index, call->stream),
      o(call->index, call->stream);
  FACULA_TRY(q.read(tensor(call, 0)));
  FACULA_TRY(k.read(tensor(call, 1)));
  FACULA_TRY(v.read(tensor(call, 2)));
  FACULA_TRY(o.room(out));
  const std::array<Laid, 4> laid{q.laid(), k.laid(), v.laid(), o.laid()};
  const PlanData* const plan =
      find_plan(*device, key_of(p, 100, laid.data(), laid.size()), [&] { return forward_plan(*device, p, laid); });
  if (plan == nullptr) return FACULA_NOT_SUPPORTED;
  float scale = static_cast<float>(call->args[5].at.f), lowest = -kInfinity;
  const std::array ids{int{kQ}, int{kK}, int{kV}, int{kOut}, int{kStats}, int{kScale}, int{kLowest}};
  void* const places[] = {q.data(), k.data(), v.data(), o.data(), stats.data, &scale, &lowest};
  const size_t count = p.causal ? 7 : 6;
  FACULA_TRY(run_plan(*device, *plan, std::span(ids).first(count), std::span(places).first(count), call->stream));
  return o.put(out);
}

// attention_backward(grad, query, key, value, mask, output, logsumexp, is_causal, scale, grad_query, grad_key,
// grad_value)
int32_t attention_backward(void*, const FaculaCall* call) {
  Problem p;
  if (!read_problem(call, 1, p)) return FACULA_NOT_SUPPORTED;
  p.causal = call->args[7].at.i != 0;
  const FaculaTensor& stats = tensor(call, 6);
  if (!is_dense(stats) || stats.dtype != FACULA_FLOAT32 || !on_device(stats)) return FACULA_NOT_SUPPORTED;
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  std::array<Operand, 8> x{Operand(call->index, call->stream), Operand(call->index, call->stream),
                           Operand(call->index, call->stream), Operand(call->index, call->stream),
                           Operand(call->index, call->stream), Operand(call->index, call->stream),
                           Operand(call->index, call->stream), Operand(call->index, call->stream)};
  const int read[] = {1, 2, 3, 5, 0};
  for (size_t i = 0; i < 5; ++i) FACULA_TRY(x[i].read(tensor(call, read[i])));
  for (size_t i = 0; i < 3; ++i) FACULA_TRY(x[5 + i].room(result(call, static_cast<int>(i))));
  const std::array<Laid, 8> laid{x[0].laid(), x[1].laid(), x[2].laid(), x[3].laid(),
                                 x[4].laid(), x[5].laid(), x[6].laid(), x[7].laid()};
  const PlanData* const plan =
      find_plan(*device, key_of(p, 101, laid.data(), laid.size()), [&] { return backward_plan(*device, p, laid); });
  if (plan == nullptr) return FACULA_NOT_SUPPORTED;
  float scale = static_cast<float>(call->args[8].at.f), lowest = -kInfinity, one = 1;
  const int64_t rows = p.batch * p.heads * p.queries;
  Scratch dots(call->index, call->stream), dq_sum(call->index, call->stream);
  FACULA_TRY(dots.allocate(static_cast<size_t>(rows) * sizeof(float)));
  FACULA_TRY(dq_sum.allocate(static_cast<size_t>(rows * p.width) * sizeof(float)));
  std::array<int, 14> ids;
  std::array<void*, 14> places;
  size_t n = 0;
  const auto bind = [&](int id, void* place) {
    ids[n] = id;
    places[n++] = place;
  };
  for (int i = 0; i < 5; ++i) bind(i, x[static_cast<size_t>(i)].data());
  bind(kBstats, stats.data);
  for (int i = 0; i < 3; ++i) bind(kDq + i, x[static_cast<size_t>(5 + i)].data());
  bind(kBscale, &scale);
  if (p.causal) bind(kBlowest, &lowest);
  bind(kBone, &one);
  bind(kDots, dots.data());
  bind(kSumDq, dq_sum.data());
  FACULA_TRY(run_plan(*device, *plan, std::span(ids).first(n), std::span<void* const>(places).first(n), call->stream));
  for (size_t i = 0; i < 3; ++i) FACULA_TRY(x[5 + i].put(result(call, static_cast<int>(i))));
  return FACULA_OK;
}

const Registers registers{{"attention", attention}, {"attention_backward", attention_backward}};

}  // namespace

}  // namespace facula::cuda
