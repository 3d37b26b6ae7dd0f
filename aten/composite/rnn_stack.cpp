// Recurrent networks: layers and directions of the layers in rnn.cpp.
#include <iterator>

#include "facula/kernels.h"
#include "facula/ops.h"

namespace facula::composite {
namespace {

enum class Cell : uint8_t { Lstm, Gru, Tanh, Relu };

struct Network {
  const char* name;
  Cell cell;
  TensorList params;
  bool has_biases;
  int64_t layers;
  double dropout;
  bool train, bidirectional;

  int64_t directions() const { return bidirectional ? 2 : 1; }
};

struct Result {
  Tensor output, h, c;
};

// One direction of a layer: input (rows, features) -> output (rows, hidden).
Result run_layer(const Network& net, const Tensor& x, IntList sizes, bool reverse, const Tensor& h, const Tensor& c,
                 TensorList params) {
  const Tensor &weight = params[0], &recurrent = params[1];
  const Tensor own = net.has_biases ? params[2] : Tensor(), other = net.has_biases ? params[3] : Tensor();
  if (net.cell == Cell::Gru) {
    auto [out, last, kept] = ops::gru_layer(ops::linear(x, weight, own), h, recurrent, other, sizes, reverse);
    return {out, last, {}};
  }
  const Tensor gates = ops::linear(x, weight, net.has_biases ? ops::add(own, other) : Tensor());
  if (net.cell == Cell::Lstm) {
    if (h.size(1) != c.size(1)) {
      auto [out, last, cell] = ops::lstm_projected(gates, h, c, recurrent, params.back(), sizes, reverse);
      return {out, last, cell};
    }
    auto [out, last, cell, act, cells] = ops::lstm_layer(gates, h, c, recurrent, sizes, reverse);
    return {out, last, cell};
  }
  auto [out, last] = ops::rnn_layer(gates, h, recurrent, sizes, reverse, net.cell == Cell::Relu);
  return {out, last, {}};
}

void check_states(const Network& net, const Tensor& t, const char* what) {
  FACULA_CHECK(t.dim() == 3 && t.size(0) == net.layers * net.directions(), Shape, Operator{net.name}, Argument{what},
               " is ", shape_string(t.sizes()), ", expected (", net.layers * net.directions(), ", batch, hidden)");
}

Result run(const Network& net, const Tensor& data, IntList sizes, const Tensor& hx, const Tensor& cx) {
  FACULA_CHECK(net.layers >= 1, Value, Operator{net.name}, Argument{"num_layers"}, " must be at least 1, not ",
               net.layers);
  FACULA_CHECK(net.layers <= std::ssize(net.params), Value, Operator{net.name}, "expected at least ", net.layers,
               " parameters, got ", net.params.size());
  check_states(net, hx, "the initial state");
  if (cx.defined()) check_states(net, cx, "the initial cell state");
  const bool projected = cx.defined() && cx.size(2) != hx.size(2);
  const size_t each = 2 + (net.has_biases ? 2 : 0) + (projected ? 1 : 0);
  const auto cells = static_cast<size_t>(net.layers * net.directions());
  FACULA_CHECK(net.params.size() == each * cells, Value, Operator{net.name}, "expected ", each * cells,
               " parameters, got ", net.params.size());
  Tensor x = data;
  std::vector<Tensor> h, c;
  for (int64_t layer = 0; layer < net.layers; ++layer) {
    std::vector<Tensor> outputs;
    for (int64_t direction = 0; direction < net.directions(); ++direction) {
      const auto at = static_cast<int64_t>(h.size());
      const Tensor cell = cx.defined() ? ops::select(cx, 0, at) : Tensor();
      Result r = run_layer(net, x, sizes, direction == 1, ops::select(hx, 0, at), cell,
                           net.params.subspan(static_cast<size_t>(at) * each, each));
      outputs.push_back(r.output);
      h.push_back(r.h);
      if (r.c.defined()) c.push_back(r.c);
    }
    x = outputs.size() == 1 ? outputs[0] : ops::cat(outputs, 1);
    if (net.dropout > 0 && net.train && layer + 1 < net.layers) x = ops::dropout(x, net.dropout, true);
  }
  const auto stacked = [](const std::vector<Tensor>& states) {
    return states.size() == 1 ? ops::unsqueeze(states[0], 0) : ops::stack(states);
  };
  return {x, stacked(h), c.empty() ? Tensor() : stacked(c)};
}

// A batch of sequences of one length, (T, B, features) or (B, T, features).
Result run_batch(const Network& net, const Tensor& input, bool batch_first, const Tensor& hx, const Tensor& cx) {
  FACULA_CHECK(input.dim() == 3, Shape, Operator{net.name}, "the input is ", shape_string(input.sizes()),
               ", expected 3 dims");
  const Tensor x = batch_first ? ops::transpose(input, 0, 1) : input;
  const int64_t times = x.size(0), batch = x.size(1);
  FACULA_CHECK(times > 0, Runtime, Operator{net.name}, "expected sequence length to be larger than 0");
  FACULA_CHECK(hx.dim() != 3 || hx.size(1) == batch, Shape, Operator{net.name}, "the initial state is ",
               shape_string(hx.sizes()), ", the batch has ", batch, " sequences");
  const DimVector sizes(static_cast<size_t>(times), batch);
  Result r = run(net, ops::reshape(x, IntList{times * batch, x.size(2)}), sizes, hx, cx);
  r.output = ops::reshape(r.output, IntList{times, batch, r.output.size(1)});
  if (batch_first) r.output = ops::transpose(r.output, 0, 1);
  return r;
}

// Packed sequences, (rows, features).
Result run_packed(const Network& net, const Tensor& data, const Tensor& batch_sizes, const Tensor& hx,
                  const Tensor& cx) {
  FACULA_CHECK(data.dim() == 2, Shape, Operator{net.name}, "the data are ", shape_string(data.sizes()),
               ", expected 2 dims");
  FACULA_CHECK(!batch_sizes.is_meta(), Values, Operator{net.name},
               "the work depends on the values of batch_sizes, and there are none on the meta device");
  FACULA_CHECK(batch_sizes.dim() == 1 && batch_sizes.dtype() == ScalarType::Int64, Shape, Operator{net.name},
               Argument{"batch_sizes"}, " must be a vector of int64, not ", dtype_name(batch_sizes.dtype()),
               " of shape ", shape_string(batch_sizes.sizes()));
  const Tensor counts = batch_sizes.is_cpu() ? batch_sizes : ops::to_device(batch_sizes, Device{kCPU});
  DimVector sizes;
  check_memory(counts, "batch_sizes");
  for (int64_t t = 0; t < counts.size(0); ++t) sizes.push_back(counts.data<int64_t>()[t * counts.stride(0)]);
  return run(net, data, sizes, hx, cx);
}

std::pair<Tensor, Tensor> pair_of(TensorList hx, const char* name) {
  FACULA_CHECK(hx.size() == 2, Value, Operator{name}, Argument{"hx"},
               " must hold the initial state and cell state, not ", hx.size(), " tensors");
  return {hx[0], hx[1]};
}

using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
Two without_cell(const Result& r) { return {r.output, r.h}; }

}  // namespace

Three lstm(const Tensor& input, TensorList hx, TensorList params, bool has_biases, int64_t num_layers, double dropout,
           bool train, bool bidirectional, bool batch_first) {
  const auto [h, c] = pair_of(hx, "lstm");
  Result r = run_batch({"lstm", Cell::Lstm, params, has_biases, num_layers, dropout, train, bidirectional}, input,
                       batch_first, h, c);
  return {r.output, r.h, r.c};
}

Three lstm_data(const Tensor& data, const Tensor& batch_sizes, TensorList hx, TensorList params, bool has_biases,
                int64_t num_layers, double dropout, bool train, bool bidirectional) {
  const auto [h, c] = pair_of(hx, "lstm");
  Result r = run_packed({"lstm", Cell::Lstm, params, has_biases, num_layers, dropout, train, bidirectional}, data,
                        batch_sizes, h, c);
  return {r.output, r.h, r.c};
}

Two gru(const Tensor& input, const Tensor& hx, TensorList params, bool has_biases, int64_t num_layers, double dropout,
        bool train, bool bidirectional, bool batch_first) {
  return without_cell(run_batch({"gru", Cell::Gru, params, has_biases, num_layers, dropout, train, bidirectional},
                                input, batch_first, hx, {}));
}

Two gru_data(const Tensor& data, const Tensor& batch_sizes, const Tensor& hx, TensorList params, bool has_biases,
             int64_t num_layers, double dropout, bool train, bool bidirectional) {
  return without_cell(run_packed({"gru", Cell::Gru, params, has_biases, num_layers, dropout, train, bidirectional},
                                 data, batch_sizes, hx, {}));
}

Two rnn_tanh(const Tensor& input, const Tensor& hx, TensorList params, bool has_biases, int64_t num_layers,
             double dropout, bool train, bool bidirectional, bool batch_first) {
  return without_cell(run_batch({"rnn_tanh", Cell::Tanh, params, has_biases, num_layers, dropout, train, bidirectional},
                                input, batch_first, hx, {}));
}

Two rnn_tanh_data(const Tensor& data, const Tensor& batch_sizes, const Tensor& hx, TensorList params, bool has_biases,
                  int64_t num_layers, double dropout, bool train, bool bidirectional) {
  return without_cell(
      run_packed({"rnn_tanh", Cell::Tanh, params, has_biases, num_layers, dropout, train, bidirectional}, data,
                 batch_sizes, hx, {}));
}

Two rnn_relu(const Tensor& input, const Tensor& hx, TensorList params, bool has_biases, int64_t num_layers,
             double dropout, bool train, bool bidirectional, bool batch_first) {
  return without_cell(run_batch({"rnn_relu", Cell::Relu, params, has_biases, num_layers, dropout, train, bidirectional},
                                input, batch_first, hx, {}));
}

Two rnn_relu_data(const Tensor& data, const Tensor& batch_sizes, const Tensor& hx, TensorList params, bool has_biases,
                  int64_t num_layers, double dropout, bool train, bool bidirectional) {
  return without_cell(
      run_packed({"rnn_relu", Cell::Relu, params, has_biases, num_layers, dropout, train, bidirectional}, data,
                 batch_sizes, hx, {}));
}

}  // namespace facula::composite
