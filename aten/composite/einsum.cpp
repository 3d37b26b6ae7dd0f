// einsum: operands are brought to one order of labels, then contracted from the left, each pair by
// one bmm over (batch labels, own labels, summed labels).
#include <array>
#include <cctype>
#include <vector>

#include "facula/kernels.h"
#include "facula/ops.h"

namespace facula::composite {
namespace {

constexpr int kEllipsis = 52;  // labels: A-Z, a-z, then the dims that `...` stands for
constexpr int kMaxLabels = 52 + 64;

int label_of(char c) { return c <= 'Z' ? c - 'A' : 26 + (c - 'a'); }
char letter(int label) { return static_cast<char>(label < 26 ? 'A' + label : 'a' + label - 26); }

struct Subscript {
  std::vector<int> labels;  // kEllipsis marks `...`
  bool ellipsis = false;
};

[[noreturn]] void bad(std::string_view equation, const std::string& what) {
  raise(ErrorKind::Runtime, Operator{"einsum"}, what, " in equation '", equation, "'");
}

Subscript parse(std::string_view text, std::string_view equation) {
  Subscript s;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (c == '.') {
      if (s.ellipsis) bad(equation, "found '.' twice in one subscript: only one '...' is allowed");
      if (text.substr(i, 3) != "...") bad(equation, "found '.' that is not part of '...'");
      s.labels.push_back(kEllipsis);
      s.ellipsis = true;
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      s.labels.push_back(label_of(c));
    } else {
      bad(equation, concat("invalid subscript '", c, "': subscripts are letters a-z, A-Z"));
    }
  }
  return s;
}

// Dims of `t` by label; a repeated label takes the diagonal.
struct Operand {
  Tensor tensor;
  std::vector<int> labels;
};

Operand open(const Tensor& t, const Subscript& s, int64_t ellipsis_dims, size_t index, std::string_view equation) {
  const auto named = static_cast<int64_t>(s.labels.size()) - (s.ellipsis ? 1 : 0);
  const int64_t own = t.dim() - named;  // dims under this operand's ellipsis
  if (s.ellipsis ? own < 0 : own != 0) {
    bad(equation, concat("operand ", index, " has ", t.dim(), " dims, its subscript names ", named,
                         s.ellipsis ? " or more" : ""));
  }
  Operand o{t, {}};
  std::vector<int> labels;
  for (const int label : s.labels) {
    if (label != kEllipsis) {
      labels.push_back(label);
    } else {
      for (int64_t d = 0; d < own; ++d) labels.push_back(kEllipsis + static_cast<int>(ellipsis_dims - own + d));
    }
  }
  for (size_t d = 0; d < labels.size();) {
    size_t first = 0;
    while (labels[first] != labels[d]) ++first;
    if (first == d) {
      ++d;
      continue;
    }
    const int64_t i = static_cast<int64_t>(first), j = static_cast<int64_t>(d);
    if (o.tensor.size(i) != o.tensor.size(j)) {
      bad(equation, concat("label '", letter(labels[d]), "' is repeated for operand ", index, " with sizes ",
                           o.tensor.size(i), " and ", o.tensor.size(j)));
    }
    // The diagonal becomes the last dim; move it to the first of the two.
    o.tensor = ops::diagonal(o.tensor, 0, i, j);
    labels.erase(labels.begin() + j);
    DimVector order;
    for (int64_t k = 0; k + 1 < o.tensor.dim(); ++k) order.push_back(k);
    order.insert(order.begin() + i, o.tensor.dim() - 1);
    o.tensor = ops::permute(o.tensor, order);
  }
  o.labels = std::move(labels);
  return o;
}

using Sizes = std::array<int64_t, kMaxLabels>;

// Sums the dims whose label is not wanted any more.
void sum_out(Operand& o, const std::vector<bool>& wanted) {
  DimVector dims;
  std::vector<int> left;
  for (size_t d = 0; d < o.labels.size(); ++d) {
    if (wanted[static_cast<size_t>(o.labels[d])]) {
      left.push_back(o.labels[d]);
    } else {
      dims.push_back(static_cast<int64_t>(d));
    }
  }
  if (dims.empty()) return;
  o.tensor = ops::sum(o.tensor, IntList(dims), false);
  o.labels = std::move(left);
}

int64_t find(const Operand& o, int label) {
  for (size_t d = 0; d < o.labels.size(); ++d) {
    if (o.labels[d] == label) return static_cast<int64_t>(d);
  }
  return -1;
}

// The operand as (groups of labels), with dims of one where it lacks a label.
Tensor arrange(const Operand& o, std::initializer_list<const std::vector<int>*> groups, const DimVector& shape) {
  DimVector order;
  for (const std::vector<int>* group : groups) {
    for (const int label : *group) order.push_back(find(o, label));
  }
  bool in_order = true;
  for (size_t d = 0; d < order.size(); ++d) in_order = in_order && order[d] == static_cast<int64_t>(d);
  const Tensor t = in_order ? o.tensor : ops::permute(o.tensor, order);
  return t.sizes() == IntList(shape) ? t : ops::reshape(t, shape);
}

// Contracts two operands; labels not in `wanted` (those of the result and of later operands) are summed.
Operand contract(Operand a, Operand b, const std::vector<bool>& wanted, const Sizes&) {
  std::vector<bool> needed_a = wanted, needed_b = wanted;
  // A dim of one against a longer one broadcasts: it drops out of the product.
  for (const int label : a.labels) {
    const int64_t i = find(a, label), j = find(b, label);
    if (j < 0) continue;
    if (a.tensor.size(i) == 1 && b.tensor.size(j) != 1) {
      a.tensor = ops::squeeze_dim(a.tensor, i);
      a.labels.erase(a.labels.begin() + i);
      return contract(std::move(a), std::move(b), wanted, Sizes{});
    }
    if (b.tensor.size(j) == 1 && a.tensor.size(i) != 1) {
      b.tensor = ops::squeeze_dim(b.tensor, j);
      b.labels.erase(b.labels.begin() + j);
      return contract(std::move(a), std::move(b), wanted, Sizes{});
    }
    needed_a[static_cast<size_t>(label)] = true;
    needed_b[static_cast<size_t>(label)] = true;
  }
  const bool alike = a.tensor.dtype() == b.tensor.dtype();
  sum_out(a, needed_a);
  sum_out(b, needed_b);
  if (alike && a.tensor.dtype() != b.tensor.dtype()) {  // sums of integers are wider
    const ScalarType both = promote_types(a.tensor.dtype(), b.tensor.dtype());
    a.tensor = ops::to_dtype(a.tensor, both);
    b.tensor = ops::to_dtype(b.tensor, both);
  }
  std::vector<int> batch, summed, only_a, only_b;
  int64_t nb = 1, ns = 1, na = 1, nc = 1;
  DimVector shape;
  std::vector<int> labels;
  for (const int label : a.labels) {
    const int64_t size = a.tensor.size(find(a, label));
    if (find(b, label) < 0) {
      only_a.push_back(label);
      na *= size;
    } else if (wanted[static_cast<size_t>(label)]) {
      batch.push_back(label);
      nb *= size;
    } else {
      summed.push_back(label);
      ns *= size;
    }
  }
  for (const int label : b.labels) {
    if (find(a, label) >= 0) continue;
    only_b.push_back(label);
    nc *= b.tensor.size(find(b, label));
  }
  for (const int label : batch) shape.push_back(a.tensor.size(find(a, label)));
  for (const int label : only_a) shape.push_back(a.tensor.size(find(a, label)));
  for (const int label : only_b) shape.push_back(b.tensor.size(find(b, label)));
  for (const std::vector<int>* group : {&batch, &only_a, &only_b}) {
    labels.insert(labels.end(), group->begin(), group->end());
  }
  Tensor product;
  if (batch.empty()) {
    product =
        ops::mm(arrange(a, {&only_a, &summed}, DimVector{na, ns}), arrange(b, {&summed, &only_b}, DimVector{ns, nc}));
  } else {
    product = ops::bmm(arrange(a, {&batch, &only_a, &summed}, DimVector{nb, na, ns}),
                       arrange(b, {&batch, &summed, &only_b}, DimVector{nb, ns, nc}));
  }
  return {product.sizes() == IntList(shape) ? product : ops::reshape(product, shape), std::move(labels)};
}

}  // namespace

Tensor einsum(std::string_view equation, TensorList operands) {
  FACULA_CHECK(!operands.empty(), Runtime, Operator{"einsum"}, "must provide at least one operand");
  const size_t arrow = equation.find("->");
  const std::string_view left = equation.substr(0, arrow);
  std::vector<Subscript> subscripts;
  for (size_t from = 0;;) {
    const size_t comma = left.find(',', from);
    subscripts.push_back(parse(left.substr(from, comma - from), equation));
    if (comma == std::string_view::npos) break;
    from = comma + 1;
  }
  if (subscripts.size() != operands.size()) {
    bad(equation, concat("found ", subscripts.size(), " subscripts for ", operands.size(), " operands"));
  }
  int64_t ellipsis_dims = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Subscript& s = subscripts[i];
    if (s.ellipsis) {
      ellipsis_dims = std::max(ellipsis_dims, operands[i].dim() - static_cast<int64_t>(s.labels.size()) + 1);
    }
  }
  FACULA_CHECK(ellipsis_dims <= 64, Shape, Operator{"einsum"}, "'...' stands for more than 64 dims");
  std::vector<Operand> open_operands;
  Sizes sizes;
  sizes.fill(-1);
  std::array<int, kMaxLabels> uses{};
  for (size_t i = 0; i < operands.size(); ++i) {
    open_operands.push_back(open(operands[i], subscripts[i], ellipsis_dims, i, equation));
    const Operand& o = open_operands.back();
    for (size_t d = 0; d < o.labels.size(); ++d) {
      const auto label = static_cast<size_t>(o.labels[d]);
      const int64_t size = o.tensor.size(static_cast<int64_t>(d));
      if (sizes[label] >= 0 && sizes[label] != size && size != 1 && sizes[label] != 1) {
        bad(equation, concat("operands do not broadcast: ",
                             label < kEllipsis ? concat("label '", letter(o.labels[d]), "'") : "a dim of '...'",
                             " has size ", size, " in operand ", i, " and ", sizes[label], " before"));
      }
      sizes[label] = sizes[label] < 0 || sizes[label] == 1 ? size : sizes[label];
    }
    std::array<bool, kMaxLabels> here{};
    for (const int label : subscripts[i].labels) {
      if (label != kEllipsis) uses[static_cast<size_t>(label)] += here[static_cast<size_t>(label)] ? 2 : 1;
      here[static_cast<size_t>(label)] = true;
    }
  }
  std::vector<int> output;
  const auto push_ellipsis = [&] {
    for (int64_t d = 0; d < ellipsis_dims; ++d) output.push_back(kEllipsis + static_cast<int>(d));
  };
  if (arrow == std::string_view::npos) {  // implicit: `...`, then labels used once, in alphabetical order
    push_ellipsis();
    for (int label = 0; label < kEllipsis; ++label) {
      if (uses[static_cast<size_t>(label)] == 1) output.push_back(label);
    }
  } else {
    for (const int label : parse(equation.substr(arrow + 2), equation).labels) {
      if (label == kEllipsis) {
        push_ellipsis();
        continue;
      }
      if (sizes[static_cast<size_t>(label)] < 0) {
        bad(equation, concat("output subscript '", letter(label), "' does not appear in any operand"));
      }
      for (const int other : output) {
        if (other == label) bad(equation, concat("output subscript '", letter(label), "' appears more than once"));
      }
      output.push_back(label);
    }
  }
  Operand result = std::move(open_operands[0]);
  for (size_t i = 1; i <= open_operands.size(); ++i) {
    std::vector<bool> wanted(kMaxLabels, false);
    for (const int label : output) wanted[static_cast<size_t>(label)] = true;
    for (size_t j = i + 1; j < open_operands.size(); ++j) {
      for (const int label : open_operands[j].labels) wanted[static_cast<size_t>(label)] = true;
    }
    if (i == open_operands.size()) {
      sum_out(result, wanted);
    } else {
      result = contract(std::move(result), std::move(open_operands[i]), wanted, sizes);
    }
  }
  DimVector order;
  for (const int label : output) order.push_back(find(result, label));
  bool in_order = true;
  for (size_t d = 0; d < order.size(); ++d) in_order = in_order && order[d] == static_cast<int64_t>(d);
  return in_order ? result.tensor : ops::permute(result.tensor, order);
}

}  // namespace facula::composite
