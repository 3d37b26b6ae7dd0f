// The two templates: every pointwise operator, and every reduction; and groups of pointwise operators.
#include <string>
#include <unordered_map>

#include "loops.h"
#include "templates.h"

namespace @NAME@ {
static thread_local bool divided_by_zero = false, negative_power = false, outside = false;
}
#define FACULA_NOTE_ZERO_DIVISION() @NAME@::divided_by_zero = true
#define FACULA_NOTE_NEGATIVE_POWER() @NAME@::negative_power = true
#define FACULA_NOTE_OUTSIDE(low, high) @NAME@::outside = true
#include "facula/math.h"

namespace @NAME@ {

namespace math = facula::math;

namespace {

template <typename T>
T number(const FaculaValue& v) {
  return v.kind == FACULA_FLOAT || v.kind == FACULA_COMPLEX ? convert<T>(v.at.f) : convert<T>(v.at.i);
}

using PointwiseFn = void (*)(int64_t n, void* const* outs, const void* const* ins, const FaculaValue* values);
struct PointwiseEntry {
  const char* op;
  const char* variant;
  int32_t compute, output;
  PointwiseFn fn;
};
using ReductionFn = void (*)(void* acc, int64_t& place, const void* in, int64_t n, int64_t first);
struct ReductionEntry {
  const char* op;
  int32_t compute;
  bool index, from_first;
  ReductionFn fn;
};

#include "formulas.inc"

// Integers of all widths are computed as int64.
int32_t computed(int32_t dtype) { return dtype >= FACULA_UINT8 && dtype <= FACULA_INT64 ? FACULA_INT64 : dtype; }

std::string key(const char* op, const char* variant, int32_t compute) {
  return std::string(op) + '/' + variant + '/' + std::to_string(compute);
}

template <typename Entry, size_t N, typename Key>
std::unordered_map<std::string, const Entry*> table_of(const Entry (&entries)[N], const Key& key_of) {
  std::unordered_map<std::string, const Entry*> table;
  for (const Entry& e : entries) table[key_of(e)] = &e;
  return table;
}

template <typename F>
void by_type(int32_t dtype, const F& fn) {
  switch (dtype) {
    case FACULA_BOOL:
      return fn(bool{});
    case FACULA_INT64:
      return fn(int64_t{});
    case FACULA_FLOAT32:
      return fn(float{});
    default:
      return fn(double{});
  }
}

constexpr int64_t kTile = 256;
struct Tile {
  alignas(64) char bytes[kTile * 8];
};

const PointwiseEntry* find(const char* op, const char* variant, int32_t compute) {
  static const auto table =
      table_of(kPointwise, [](const PointwiseEntry& e) { return key(e.op, e.variant, e.compute); });
  const auto found = table.find(key(op, variant, compute));
  return found == table.end() ? nullptr : found->second;
}

const ReductionEntry* find_reduction(const char* op, int32_t compute) {
  static const auto table = table_of(kReductions, [](const ReductionEntry& e) { return key(e.op, "", e.compute); });
  const auto found = table.find(key(op, "", compute));
  return found == table.end() ? nullptr : found->second;
}

int32_t noted() {
  if (divided_by_zero) return fail(FACULA_ZERO_DIVISION, "integer division or remainder by zero");
  if (outside) return fail(FACULA_DEVICE_ERROR, "an element is not within the limits that the operator states");
  if (negative_power) return fail(FACULA_DEVICE_ERROR, "integers have no negative integer powers");
  return FACULA_OK;
}

}  // namespace

int32_t pointwise(void*, const FaculaPointwise* call) {
  const int32_t compute = computed(call->compute);
  const PointwiseEntry* const entry = find(call->op, call->variant, compute);
  if (entry == nullptr) return fail(FACULA_NOT_SUPPORTED, "no formula in this dtype");
  std::vector<Operand> ins, outs;
  for (int32_t i = 0; i < call->nins; ++i) ins.emplace_back(call->ins[i]);
  for (int32_t i = 0; i < call->nouts; ++i) outs.emplace_back(call->outs[i]);
  for (const Operand& o : ins) {
    if (o.dtype >= FACULA_COMPLEX64) return fail(FACULA_NOT_SUPPORTED, "no complex numbers");
  }
  for (const Operand& o : outs) {
    if (o.dtype >= FACULA_COMPLEX64) return fail(FACULA_NOT_SUPPORTED, "no complex numbers");
  }
  std::vector<FaculaValue> values(call->values, call->values + call->nvalues);
  const uint32_t masks = call->masks;
  return enqueue(call->index, call->stream, [=] {
    divided_by_zero = negative_power = outside = false;
    std::vector<Tile> in_tiles(ins.size()), out_tiles(outs.size());
    std::vector<const void*> in_ptrs;
    std::vector<void*> out_ptrs;
    for (Tile& t : in_tiles) in_ptrs.push_back(t.bytes);
    for (Tile& t : out_tiles) out_ptrs.push_back(t.bytes);
    const size_t inner = outs[0].sizes.empty() ? 0 : 1;
    const int64_t row = inner != 0 ? outs[0].sizes.back() : 1;
    for_each_index(outs[0].sizes, inner, [&](const std::vector<int64_t>& index) {
      for (int64_t at = 0; at < row; at += kTile) {
        const int64_t n = std::min(kTile, row - at);
        for (size_t i = 0; i < ins.size(); ++i) {
          const Operand& o = ins[i];
          const int64_t stride = inner != 0 && !o.scalar ? o.strides.back() : 0;
          const char* const p = o.scalar ? o.base() : o.at(index) + at * stride;
          by_type((masks >> i & 1u) != 0 ? int32_t{FACULA_BOOL} : compute,
                  [&]<typename T>(T) { load(o.dtype, p, stride, n, reinterpret_cast<T*>(in_tiles[i].bytes)); });
        }
        entry->fn(n, out_ptrs.data(), in_ptrs.data(), values.data());
        for (size_t i = 0; i < outs.size(); ++i) {
          const int64_t stride = inner != 0 ? outs[i].strides.back() : 0;
          by_type(entry->output, [&]<typename T>(T) {
            store(outs[i].dtype, outs[i].at(index) + at * stride, stride, n,
                  reinterpret_cast<const T*>(out_tiles[i].bytes));
          });
        }
      }
    });
    return noted();
  });
}

// What groups take along rows, from the table of reductions.
const char* const kGroupRows[] = {"sum", "amax", "amin", "all", "any", nullptr};

// Tile by tile, so that what steps hand on stays in the cache; each value lies there in its own dtype. With steps along
// rows, row by row: a value has as many places as the row has elements.
int32_t group(void*, const FaculaGroup* call) {
  struct Step {
    const PointwiseEntry* entry;
    const ReductionEntry* along;
    std::vector<int32_t> outs, ins;
    std::vector<FaculaValue> values;
    int32_t compute;
    uint32_t masks;
  };
  std::vector<Step> steps;
  int32_t nreduced = 0;
  for (int32_t s = 0; s < call->nsteps; ++s) {
    const FaculaStep& from = call->steps[s];
    const int32_t compute = computed(from.compute);
    const PointwiseEntry* const entry = from.nreduced > 0 ? nullptr : find(from.op, from.variant, compute);
    const ReductionEntry* const along = from.nreduced > 0 ? find_reduction(from.op, compute) : nullptr;
    if (entry == nullptr && along == nullptr) return fail(FACULA_NOT_SUPPORTED, "no formula in this dtype");
    nreduced = std::max(nreduced, from.nreduced);
    steps.push_back({entry, along, {from.outs, from.outs + from.nouts}, {from.ins, from.ins + from.nins},
                     {from.values, from.values + from.nvalues}, compute, from.masks});
  }
  const std::vector<int32_t> dtypes(call->dtypes, call->dtypes + call->nvalues);
  const std::vector<int32_t> stored(call->stored, call->stored + call->noutputs);
  std::vector<Operand> ins, outs;
  for (int32_t i = 0; i < call->ninputs; ++i) ins.emplace_back(call->tensors[i]);
  for (int32_t i = 0; i < call->noutputs; ++i) outs.emplace_back(call->tensors[call->ninputs + i]);
  for (const int32_t dtype : dtypes) {
    if (dtype >= FACULA_COMPLEX64) return fail(FACULA_NOT_SUPPORTED, "no complex numbers");
  }
  return enqueue(call->index, call->stream, [=] {
    divided_by_zero = negative_power = outside = false;
    const std::vector<int64_t>& sizes = outs[0].sizes;
    const size_t inner = sizes.empty() ? 0 : static_cast<size_t>(std::max(nreduced, 1));
    const std::vector<int64_t> line(sizes.end() - static_cast<std::ptrdiff_t>(inner), sizes.end());
    int64_t row = 1;
    for (const int64_t n : line) row *= n;
    const int64_t most = nreduced > 0 ? row : kTile;  // places of a value
    std::vector<std::vector<char>> values(dtypes.size(), std::vector<char>(static_cast<size_t>(most) * 8));
    std::vector<Tile> read(16), made(16);
    // Elements [at, at + n) of a line of an operand, each by `f`.
    const auto each = [&](const Operand& o, const std::vector<int64_t>& index, int64_t at, int64_t n, const auto& f) {
      const char* const start = o.scalar ? o.base() : o.at(index);
      const size_t item = itemsize(o.dtype);
      for (int64_t i = 0; i < n; ++i) {
        int64_t rest = at + i, offset = 0;
        for (size_t d = line.size(); d-- > 0 && !o.scalar;) {
          offset += rest % line[d] * o.strides[sizes.size() - line.size() + d];
          rest /= line[d];
        }
        f(const_cast<char*>(start) + offset, static_cast<size_t>(i) * item, item);
      }
    };
    const auto along = [&](const Step& step, int64_t n) {
      const auto in = static_cast<size_t>(step.ins[0]), out = static_cast<size_t>(step.outs[0]);
      const size_t size = itemsize(dtypes[in]), made_size = itemsize(dtypes[out]);
      alignas(16) char acc[16] = {};
      int64_t place = 0;
      by_type(step.compute, [&]<typename T>(T) {
        T* const buffer = reinterpret_cast<T*>(read[0].bytes);
        for (int64_t i = 0; i < n; i += kTile) {
          const int64_t count = std::min(kTile, n - i);
          load(dtypes[in], values[in].data() + static_cast<size_t>(i) * size, static_cast<int64_t>(size), count, buffer);
          step.along->fn(acc, place, buffer, count, i);
        }
        for (int64_t i = 0; i < n; ++i) {
          store(dtypes[out], values[out].data() + static_cast<size_t>(i) * made_size, 0, 1,
                reinterpret_cast<const T*>(acc));
        }
      });
    };
    const auto pointwise_step = [&](const Step& step, int64_t at, int64_t n) {
      const void* in_ptrs[16];
      void* out_ptrs[16];
      const auto value = [&](int32_t v) {
        return values[static_cast<size_t>(v)].data() + static_cast<size_t>(at) * itemsize(dtypes[static_cast<size_t>(v)]);
      };
      for (size_t i = 0; i < step.ins.size(); ++i) {
        const int32_t dtype = dtypes[static_cast<size_t>(step.ins[i])];
        by_type((step.masks >> i & 1u) != 0 ? int32_t{FACULA_BOOL} : step.compute, [&]<typename T>(T) {
          load(dtype, value(step.ins[i]), static_cast<int64_t>(itemsize(dtype)), n, reinterpret_cast<T*>(read[i].bytes));
        });
        in_ptrs[i] = read[i].bytes;
      }
      for (size_t i = 0; i < step.outs.size(); ++i) out_ptrs[i] = made[i].bytes;
      step.entry->fn(n, out_ptrs, in_ptrs, step.values.data());
      for (size_t i = 0; i < step.outs.size(); ++i) {
        const int32_t dtype = dtypes[static_cast<size_t>(step.outs[i])];
        by_type(step.entry->output, [&]<typename T>(T) {
          store(dtype, value(step.outs[i]), static_cast<int64_t>(itemsize(dtype)), n,
                reinterpret_cast<const T*>(made[i].bytes));
        });
      }
    };
    for_each_index(sizes, inner, [&](const std::vector<int64_t>& index) {
      for (int64_t at = 0; at < row; at += most) {
        const int64_t n = std::min(most, row - at);
        for (size_t i = 0; i < ins.size(); ++i) {
          each(ins[i], index, at, n,
               [&](const char* p, size_t to, size_t item) { std::memcpy(values[i].data() + to, p, item); });
        }
        for (const Step& step : steps) {
          if (step.along != nullptr) {
            along(step, n);
            continue;
          }
          for (int64_t i = 0; i < n; i += kTile) pointwise_step(step, i, std::min(kTile, n - i));
        }
        for (size_t i = 0; i < outs.size(); ++i) {
          const std::vector<char>& from = values[static_cast<size_t>(stored[i])];
          each(outs[i], index, at, n,
               [&](char* p, size_t place, size_t item) { std::memcpy(p, from.data() + place, item); });
        }
      }
    });
    return noted();
  });
}

int32_t reduction(void*, const FaculaReduction* call) {
  const int32_t compute = computed(call->compute);
  const ReductionEntry* const entry = find_reduction(call->op, compute);
  const Operand in(*call->in), out(*call->out);
  if (entry == nullptr || in.dtype >= FACULA_COMPLEX64) return fail(FACULA_NOT_SUPPORTED, "no reduction in this dtype");
  const size_t nreduced = static_cast<size_t>(call->nreduced);
  return enqueue(call->index, call->stream, [=] {
    const size_t kept = in.sizes.size() - nreduced;
    const std::vector<int64_t> reduced(in.sizes.begin() + static_cast<std::ptrdiff_t>(kept), in.sizes.end());
    for_each_index(out.sizes, 0, [&](const std::vector<int64_t>& index) {
      const char* const start = in.at(index);
      alignas(16) char acc[16] = {};
      int64_t place = 0, first = 0;
      by_type(compute, [&]<typename T>(T) {
        T buffer[kTile];
        const size_t inner = reduced.empty() ? 0 : 1;
        const int64_t row = inner != 0 ? reduced.back() : 1;
        const int64_t stride = inner != 0 ? in.strides.back() : 0;
        for_each_index(reduced, inner, [&](const std::vector<int64_t>& at) {
          const char* p = start;
          for (size_t d = 0; d < at.size(); ++d) p += at[d] * in.strides[kept + d];
          for (int64_t i = 0; i < row; i += kTile) {
            const int64_t n = std::min(kTile, row - i);
            load(in.dtype, p + i * stride, stride, n, buffer);
            entry->fn(acc, place, buffer, n, first);
            first += n;
          }
        });
        if (first == 0 && !entry->from_first) entry->fn(acc, place, buffer, 0, 0);
        if (entry->index) {
          store(out.dtype, out.at(index), 0, 1, &place);
        } else {
          store(out.dtype, out.at(index), 0, 1, reinterpret_cast<const T*>(acc));
        }
      });
    });
    return int32_t{FACULA_OK};
  });
}

}  // namespace @NAME@
