// Optimizer steps: all parameters of a call in one parallel region, each in flat pieces.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "aten/cpu/nn/optim_loops.h"
#include "facula/kernels.h"
#include "runtime/iterate/convert.h"
#include "runtime/iterate/strided.h"

namespace facula::cpu {
namespace {

constexpr int64_t kTile = 512;

// One parameter with its gradient and state; complex numbers are pairs of real ones.
template <typename Step>
struct Job {
  int64_t start = 0, n = 0;  // start: elements of the jobs before
  char* data[kStepArrays] = {};
  ScalarType dtype[kStepArrays] = {};
  bool plain = true;  // every array has the type that is computed in
  Step step{};
};

// Lists in the order of the arrays; an empty one is left out.
using StepLists = TensorList[kStepArrays];

// Changes a number that is kept in a tensor; returns the new value as stored.
template <typename F>
double update(const Tensor& t, const F& change) {
  double value = 0;
  convert_elements(ScalarType::Float64, &value, t.dtype(), t.raw(), 1);
  value = change(value);
  convert_elements(t.dtype(), t.raw(), ScalarType::Float64, &value, 1);
  convert_elements(ScalarType::Float64, &value, t.dtype(), t.raw(), 1);
  return value;
}
double count(const Tensor& t) {
  return update(t, [](double v) { return v + 1; });
}

// Can the arrays of parameter i be walked as flat memory, element by element alike?
bool same_layout(const StepLists& lists, size_t i) {
  const Tensor& p = lists[0][i];
  if (!p.is_contiguous() && !is_non_overlapping_and_dense(p.sizes(), p.strides())) return false;
  for (int k = 1; k < kStepArrays; ++k) {
    if (lists[k].empty()) continue;
    const Tensor& t = lists[k][i];
    if (!(t.is_contiguous() && p.is_contiguous()) && t.strides() != p.strides()) return false;
  }
  return true;
}

template <typename T, typename Step, typename F>
void run_piece(const Job<Step>& job, int64_t at, int64_t n, const F& loop) {
  T* x[kStepArrays] = {};
  if (job.plain) {
    for (int k = 0; k < kStepArrays; ++k) {
      if (job.data[k] != nullptr) x[k] = reinterpret_cast<T*>(job.data[k]) + at;
    }
    loop(n, job.step, x);
    return;
  }
  T tile[kStepArrays][kTile];
  for (int64_t end = at + n; at < end; at += kTile) {
    const int64_t m = std::min(kTile, end - at);
    for (int k = 0; k < kStepArrays; ++k) {
      if (job.data[k] == nullptr) continue;
      x[k] = tile[k];
      const char* from = job.data[k] + static_cast<size_t>(at) * itemsize(job.dtype[k]);
      convert_elements(dtype_of_v<T>, tile[k], job.dtype[k], from, m);
    }
    loop(m, job.step, x);
    for (int k = 0; k < kStepArrays; ++k) {
      if (job.data[k] == nullptr || k == 1) continue;
      char* to = job.data[k] + static_cast<size_t>(at) * itemsize(job.dtype[k]);
      convert_elements(job.dtype[k], to, dtype_of_v<T>, tile[k], m);
    }
  }
}

// `prepare(i, step)` fills in what differs from parameter to parameter.
template <typename Step, typename Pick, typename Prepare>
void run(const StepLists& lists, const Step& common, const Pick& pick, const Prepare& prepare) {
  std::vector<Job<Step>> jobs;
  jobs.reserve(lists[0].size());
  std::vector<std::pair<Tensor, Tensor>> copies;  // written through a dense copy: tensor, copy
  std::vector<Tensor> kept;
  int64_t total = 0;
  for (size_t i = 0; i < lists[0].size(); ++i) {
    Job<Step> job;
    job.step = common;
    prepare(i, job.step);
    const Tensor& p = lists[0][i];
    if (p.numel() == 0) continue;
    const ScalarType compute = to_real(compute_type(p.dtype()));
    const bool flat = same_layout(lists, i);
    for (int k = 0; k < kStepArrays; ++k) {
      if (lists[k].empty()) continue;
      Tensor t = lists[k][i];
      if (!flat && !t.is_contiguous()) {
        const Tensor copy = make_empty(t.sizes(), t.dtype());
        copy_strided(copy, t);
        if (k == 1) {
          kept.push_back(copy);
        } else {
          copies.emplace_back(t, copy);
        }
        t = copy;
      }
      job.data[k] = static_cast<char*>(t.raw());
      job.dtype[k] = to_real(t.dtype());
      job.plain = job.plain && job.dtype[k] == compute;
    }
    job.start = total;
    job.n = p.numel() * (p.is_complex() ? 2 : 1);
    total += job.n;
    jobs.push_back(job);
  }
  parallel_for(0, total, kGrain, [&](int64_t begin, int64_t end) {
    auto job = std::upper_bound(jobs.begin(), jobs.end(), begin,
                                [](int64_t at, const Job<Step>& j) { return at < j.start + j.n; });
    for (; begin < end; ++job) {
      const int64_t at = begin - job->start, n = std::min(end, job->start + job->n) - begin;
      if (job->dtype[0] == ScalarType::Float64) {
        run_piece<double>(*job, at, n, pick(optim_loops<double>()));
      } else {
        run_piece<float>(*job, at, n, pick(optim_loops<float>()));
      }
      begin += n;
    }
  });
  for (const auto& [tensor, copy] : copies) copy_strided(tensor, copy);
}

// Elements [begin, end) of flat memory times `by`; were they finite?
bool unscale_piece(ScalarType dtype, char* data, int64_t begin, int64_t end, double by) {
  char* at = data + static_cast<size_t>(begin) * itemsize(dtype);
  if (dtype == ScalarType::Float64) {
    return optim_loops<double>().unscale(end - begin, by, reinterpret_cast<double*>(at));
  }
  const auto narrow = static_cast<float>(by);
  if (dtype == ScalarType::Float32) {
    return optim_loops<float>().unscale(end - begin, narrow, reinterpret_cast<float*>(at));
  }
  bool finite = true;
  float tile[kTile];
  for (; begin < end; begin += kTile) {
    const int64_t m = std::min(kTile, end - begin);
    char* const piece = data + static_cast<size_t>(begin) * itemsize(dtype);
    convert_elements(ScalarType::Float32, tile, dtype, piece, m);
    finite &= optim_loops<float>().unscale(m, narrow, tile);
    convert_elements(dtype, piece, ScalarType::Float32, tile, m);
  }
  return finite;
}

}  // namespace

void unscale_grads(TensorList grads, const Tensor& found_inf, const Tensor& inv_scale) {
  double by = 0;
  convert_elements(ScalarType::Float64, &by, inv_scale.dtype(), inv_scale.raw(), 1);
  std::atomic<bool> finite{true};
  for (size_t i = 0; i < grads.size(); ++i) {
    const Tensor& grad = grads[i];
    const bool flat = grad.is_contiguous() || is_non_overlapping_and_dense(grad.sizes(), grad.strides());
    const Tensor dense = flat ? grad : make_empty(grad.sizes(), grad.dtype());
    if (!flat) copy_strided(dense, grad);
    const ScalarType dtype = to_real(grad.dtype());
    parallel_for(0, grad.numel() * (grad.is_complex() ? 2 : 1), kGrain, [&](int64_t begin, int64_t end) {
      if (!unscale_piece(dtype, static_cast<char*>(dense.raw()), begin, end, by)) finite.store(false);
    });
    if (!flat) copy_strided(grad, dense);
  }
  if (!finite.load()) update(found_inf, [](double) { return 1.0; });
}

void update_scale(const Tensor& scale, const Tensor& growth_tracker, const Tensor& found_inf, double growth_factor,
                  double backoff_factor, int64_t growth_interval) {
  double found = 0;
  convert_elements(ScalarType::Float64, &found, found_inf.dtype(), found_inf.raw(), 1);
  const double calls = update(growth_tracker, [&](double v) { return found != 0 ? 0 : v + 1; });
  if (found != 0) {
    update(scale, [&](double v) { return v * backoff_factor; });
  } else if (calls == static_cast<double>(growth_interval)) {
    double before = 0;
    const double grown = update(scale, [&](double v) { return (before = v) * growth_factor; });
    if (!std::isfinite(grown)) update(scale, [&](double) { return before; });
    update(growth_tracker, [](double) { return 0.0; });
  }
}

void sgd_step(TensorList params, TensorList grads, TensorList momentum_buffers, double lr, double momentum,
              double dampening, double weight_decay, bool nesterov, bool maximize, bool first) {
  const StepLists lists = {params, grads, momentum_buffers};
  run(
      lists, SgdStep{lr, momentum, dampening, weight_decay, nesterov, maximize, first},
      [](const auto& loops) { return loops.sgd; }, [](size_t, SgdStep&) {});
}

void adam_step(TensorList params, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
               TensorList max_exp_avg_sqs, TensorList steps, double lr, double beta1, double beta2, double eps,
               double weight_decay, bool decoupled, bool maximize) {
  const StepLists lists = {params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs};
  run(
      lists, AdamStep{lr, beta1, beta2, eps, weight_decay, decoupled, maximize},
      [](const auto& loops) { return loops.adam; },
      [&](size_t i, AdamStep& s) {
        const double t = count(steps[i]);
        s.rate = lr / (1 - std::pow(beta1, t));
        s.root = std::sqrt(1 - std::pow(beta2, t));
      });
}

void nadam_step(TensorList params, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
                TensorList mu_products, TensorList steps, double lr, double beta1, double beta2, double eps,
                double weight_decay, double momentum_decay, bool decoupled, bool maximize) {
  const StepLists lists = {params, grads, exp_avgs, exp_avg_sqs};
  run(
      lists, NAdamStep{lr, beta1, beta2, eps, weight_decay, momentum_decay, decoupled, maximize},
      [](const auto& loops) { return loops.nadam; },
      [&](size_t i, NAdamStep& s) {
        const double t = count(steps[i]);
        const double mu = beta1 * (1 - 0.5 * std::pow(0.96, t * momentum_decay));
        const double next = beta1 * (1 - 0.5 * std::pow(0.96, (t + 1) * momentum_decay));
        const double product = update(mu_products[i], [&](double v) { return v * mu; });
        s.grad_rate = lr * (1 - mu) / (1 - product);
        s.mean_rate = lr * next / (1 - product * next);
        s.correction = 1 - std::pow(beta2, t);
      });
}

void adamax_step(TensorList params, TensorList grads, TensorList exp_avgs, TensorList exp_infs, TensorList steps,
                 double lr, double beta1, double beta2, double eps, double weight_decay, bool maximize) {
  const StepLists lists = {params, grads, exp_avgs, exp_infs};
  run(
      lists, AdamaxStep{lr, beta1, beta2, eps, weight_decay, maximize}, [](const auto& loops) { return loops.adamax; },
      [&](size_t i, AdamaxStep& s) { s.rate = lr / (1 - std::pow(beta1, count(steps[i]))); });
}

void rmsprop_step(TensorList params, TensorList grads, TensorList square_avgs, TensorList grad_avgs,
                  TensorList momentum_buffers, TensorList steps, double lr, double alpha, double eps,
                  double weight_decay, double momentum, bool maximize) {
  const StepLists lists = {params, grads, square_avgs, grad_avgs, momentum_buffers};
  run(
      lists, RmspropStep{lr, alpha, eps, weight_decay, momentum, maximize},
      [](const auto& loops) { return loops.rmsprop; }, [&](size_t i, RmspropStep&) { count(steps[i]); });
}

void adagrad_step(TensorList params, TensorList grads, TensorList sums, TensorList steps, double lr, double lr_decay,
                  double eps, double weight_decay, bool maximize) {
  const StepLists lists = {params, grads, sums};
  run(
      lists, AdagradStep{lr, lr_decay, eps, weight_decay, maximize}, [](const auto& loops) { return loops.adagrad; },
      [&](size_t i, AdagradStep& s) { s.rate = lr / (1 + (count(steps[i]) - 1) * lr_decay); });
}

void adadelta_step(TensorList params, TensorList grads, TensorList square_avgs, TensorList acc_deltas, TensorList steps,
                   double lr, double rho, double eps, double weight_decay, bool maximize) {
  const StepLists lists = {params, grads, square_avgs, acc_deltas};
  run(
      lists, AdadeltaStep{lr, rho, eps, weight_decay, maximize}, [](const auto& loops) { return loops.adadelta; },
      [&](size_t i, AdadeltaStep&) { count(steps[i]); });
}

}  // namespace facula::cpu
