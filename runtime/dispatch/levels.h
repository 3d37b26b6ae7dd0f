// Levels: what function transforms put between calls and tensors.
//
// Each transform that runs opens a level on its thread. Tensors of a level stand for others: they have the sizes that
// the function sees, and `inner` holds the numbers, with a batch dim more where the level is a batch. A call is for
// the innermost level first. There its arguments of that level are differentiated as their own records say (lower ones
// are constants), then their inner tensors take their places and the call is for the next level, until there is none.
// Each level of gradients has modes of its own (no_grad, tangents): below it those count that held when it began. What
// the program itself switches off within (no_grad, not what a backward pass does) is off below as well.
#pragma once

#include <memory>

#include "runtime/dispatch/registry.h"
#include "runtime/dispatch/thunk.h"

namespace facula {

struct DualLevel;  // runtime/autograd/meta.h

enum class Randomness : uint8_t { Error, Same, Different };

class FACULA_API Level {
 public:
  enum class Kind : uint8_t { Batch, Gradients };
  uint64_t number = 0;  // no other level of the process has it
  Kind kind = Kind::Batch;
  int64_t size = 0;  // of the batch
  Randomness randomness = Randomness::Error;
  Level* outer = nullptr;
  // What held when it began.
  LayerSet excluded = 0;
  bool grad_enabled = true;
  bool halted = false;
  bool forward_mode = false;
  std::shared_ptr<DualLevel> dual;
};

// Opens a level on this thread; its number.
// `again`: the number of one that was open before, whose tensors serve once more; 0 for a new one.
FACULA_API uint64_t push_batch_level(int64_t size, Randomness randomness, uint64_t again = 0);
FACULA_API uint64_t push_gradient_level(uint64_t again = 0);
// Closes the innermost level, which must be that one, and all that are within it.
FACULA_API void pop_level(uint64_t number);
FACULA_API size_t level_depth();
// What a tensor of levels stands for in the end: with all batch dims. Of others itself.
FACULA_API const Tensor& below_levels(const Tensor& t);
// Has the program itself switched recording off (no_grad), for this level and those further out? What held before.
FACULA_API bool exchange_halted(bool halted);
// Does a level further out record what its calls do, or give them tangents?
FACULA_API bool levels_record();

// `t` as a tensor of a level that is open; `dim` of it is the batch dim, -1 for none.
FACULA_API Tensor enter_level(const Tensor& t, uint64_t number, int64_t dim);
// What `t` stands for in that level, and the batch dim; of a tensor that is not of the level itself, and -1.
FACULA_API std::pair<Tensor, int64_t> leave_level(const Tensor& t, uint64_t number);
// Empty memory, or zeros, of that geometry, with the batch dims that `like` has.
FACULA_API Tensor make_as(const Tensor& like, const Meta& meta, bool zeros);

// A new tensor that no operator made, as one of the innermost level where that is of gradients.
FACULA_API Tensor made_within(Tensor t);

// Has `t` every batch dim that `of` has, so that this can be written to it?
FACULA_API bool has_batch_dims_of(const Tensor& t, const Tensor& of);

// Calls that no rule serves run row by row. How often, by the operator's name, since the start or the last reset.
FACULA_API std::vector<std::pair<const char*, uint64_t>> batch_fallbacks();
FACULA_API void reset_batch_fallbacks();
// What such a call does besides: nothing, a warning at an operator's first one, or an error in its place.
enum class Fallback : uint8_t { Quiet, Warn, Error };
FACULA_API Fallback exchange_fallback(Fallback mode);

// What levels need of the autograd engine; set by it.
extern FACULA_API void (*exchange_dual_level)(std::shared_ptr<DualLevel>& with);
extern FACULA_API uint64_t (*level_of_backward)();  // in which this thread's innermost backward pass runs, or 0

namespace detail {

// Makes `view`, of a level, one of `of`, for the autograd engine.
void set_base(const Tensor& view, const Tensor& of);

// For the length of a call: this thread is one level further out than `level`.
class FACULA_API Descent {
 public:
  explicit Descent(Level& level);
  ~Descent();
  Descent(const Descent&) = delete;
  Descent& operator=(const Descent&) = delete;

 private:
  Level& level_;
  LayerSet excluded_, included_;
  bool grad_enabled_, halted_, forward_mode_, plain_tangents_;
};

// The call of a form for the innermost level.
FACULA_API void call_in_level(const OperatorEntry& op, Variant variant, std::span<const KernelArg> args,
                              Stack& results);
// A call for a batch, some of whose arguments have batch dims (or which draws numbers, other ones for each row).
void call_batch(const OperatorEntry& op, Variant variant, std::span<const KernelArg> args, Level& level,
                Stack& results);

}  // namespace detail

}  // namespace facula
