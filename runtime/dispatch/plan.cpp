#include "runtime/dispatch/plan.h"
#include "runtime/dispatch/device_rows.h"
#include "runtime/dispatch/plan_rows.h"

#include <algorithm>
#include <list>
#include <map>
#include <unordered_map>

#include "runtime/core/yield_lock.h"

namespace facula::detail {

namespace {

// ---- which calls are needed ----

std::vector<bool> needed_nodes(const Record& record, const std::vector<bool>& held) {
  std::vector<bool> needed(record.nodes.size()), wanted = held;
  for (size_t n = record.nodes.size(); n-- > 0;) {
    const RecordNode& node = record.nodes[n];
    const RecordOperand* const at = record.operands.data() + node.operands;
    bool need = false;
    for (int i = 0; i < node.outputs; ++i) need |= wanted[static_cast<size_t>(at[i].buffer)];
    needed[n] = need;
    if (!need) continue;
    for (int i = 0; i < node.outputs; ++i) {
      const auto b = static_cast<size_t>(at[i].buffer);
      // what made the buffer wrote all of it, so that nothing earlier matters
      if (record.buffers[b].fresh && record.buffers[b].maker == n) wanted[b] = false;
    }
    for (int i = node.outputs; i < node.outputs + node.inputs; ++i) {
      if (at[i].buffer >= 0) wanted[static_cast<size_t>(at[i].buffer)] = true;
    }
  }
  return needed;
}

// ---- groups ----

// The last group that touches a buffer, and how.
struct Touch {
  int32_t group = -1;
  uint32_t shape = 0;
  RecordOperand as{};
  bool mixed = false;  // not always at the same places
  void add(int32_t g, uint32_t shape_, const RecordOperand& o) {
    if (g < group) return;
    mixed = g == group && (mixed || !as.same_place(o) || o.layout != Layout::Dense || shape != shape_);
    if (g > group) mixed = o.layout != Layout::Dense;
    group = g;
    shape = shape_;
    as = o;
  }
  bool fits(uint32_t shape_, const RecordOperand& o) const {
    return !mixed && o.layout == Layout::Dense && as.same_place(o) && shape == shape_;
  }
};

class Grouping {
 public:
  Grouping(const Record& record, const std::vector<bool>& needed, const std::vector<bool>& held)
      : held_(held),
        reads_(record.buffers.size()),
        writes_(record.buffers.size()),
        last_read(record.buffers.size(), -1) {
    for (uint32_t n = 0; n < record.nodes.size(); ++n) {
      if (needed[n]) place(record, n);
    }
  }
  struct Group {
    uint32_t shape;
    std::vector<uint32_t> nodes;
    std::string apart;
    int32_t reduction = -1;
    std::vector<int32_t> memory = {};  // on devices of packages: buffers that it reads or writes
  };
  static bool is_alone(const Group& g) { return g.reduction >= 0 && g.nodes.size() == 1; }
  std::vector<Group> groups;

 private:
  // Of a group that is one kernel: its arguments and its length are bounded.
  static constexpr size_t kMostNodes = 48, kMostBuffers = 12;
  const std::vector<bool>& held_;
  std::vector<Touch> reads_, writes_;

 public:
  std::vector<int32_t> last_read;  // by buffer: the last group that reads it

 private:
  // The group's buffers if it took the node too; values that nobody else wants stay within the kernel.
  std::vector<int32_t> memory_with(const Record& record, uint32_t n, const Group& group) const {
    std::vector<int32_t> memory = group.memory;
    const RecordNode& node = record.nodes[n];
    for (int i = 0; i < node.outputs + node.inputs; ++i) {
      const int32_t b = record.operands[node.operands + static_cast<size_t>(i)].buffer;
      if (b < 0 || std::find(memory.begin(), memory.end(), b) != memory.end()) continue;
      const RecordBuffer& buffer = record.buffers[static_cast<size_t>(b)];
      const bool within =
          buffer.fresh && !held_[static_cast<size_t>(b)] &&
          (buffer.maker == n || std::find(group.nodes.begin(), group.nodes.end(), buffer.maker) != group.nodes.end());
      if (!within) memory.push_back(b);
    }
    return memory;
  }
  // With who makes what it reduces, which nothing in the group may write to any more; else alone.
  void place_reduction(const Record& record, uint32_t n) {
    const RecordNode& node = record.nodes[n];
    const RecordOperand& out = record.operands[node.operands];
    RecordOperand in = record.operands[node.operands + 1];
    const auto b = static_cast<size_t>(in.buffer);
    const Touch& made = writes_[b];
    int32_t g = made.group;
    if (record.device.type != kCPU) {
      g = static_cast<int32_t>(groups.size());
      groups.push_back({node.shape, {}, g == 0 ? "" : "it takes whole rows"});
    } else if (g < 0 || !made.fits(node.shape, in) || groups[static_cast<size_t>(g)].reduction >= 0) {
      g = static_cast<int32_t>(groups.size());
      groups.push_back({node.shape, {}, g == 0 ? "" : "another reduction of the same elements ends the group before"});
    }
    Group& group = groups[static_cast<size_t>(g)];
    group.nodes.push_back(n);
    group.reduction = static_cast<int32_t>(n);
    writes_[static_cast<size_t>(out.buffer)].add(g, node.shape, out);
    in.layout = Layout::Strided;  // at no place that a write fits
    reads_[b].add(g, node.shape, in);
    last_read[b] = std::max(last_read[b], g);
  }
  void place(const Record& record, uint32_t n) {
    const RecordNode& node = record.nodes[n];
    if (node.kind == RecordNode::Kind::Reduce) return place_reduction(record, n);
    const RecordOperand* const at = record.operands.data() + node.operands;
    int32_t least = 0;
    const char* why = "its shape, or the order of its elements, is another one";
    const auto after = [&](const Touch& t, const RecordOperand& o, const char* reason) {
      if (t.group < 0) return;
      const int32_t bound = t.fits(node.shape, o) ? t.group : t.group + 1;
      if (bound > least) {
        least = bound;
        if (bound > t.group) why = reason;
      }
    };
    for (int i = 0; i < node.outputs + node.inputs; ++i) {
      if (at[i].buffer < 0) continue;
      const auto b = static_cast<size_t>(at[i].buffer);
      after(writes_[b], at[i], "it uses a result at other places than where that is made");
      if (i < node.outputs) after(reads_[b], at[i], "it writes to what is read at other places before");
    }
    int32_t g = static_cast<int32_t>(groups.size()) - 1;
    const bool bounded = record.device.type != kCPU;
    std::vector<int32_t> memory;
    const auto fits = [&](const Group& group) {
      if (group.shape != node.shape || is_alone(group)) return false;
      if (!bounded) return true;
      memory = memory_with(record, n, group);
      return group.nodes.size() < kMostNodes && memory.size() <= kMostBuffers;
    };
    while (g >= least && !fits(groups[static_cast<size_t>(g)])) --g;
    if (g < least) {
      g = static_cast<int32_t>(groups.size());
      groups.push_back({node.shape, {}, g == 0 ? "" : why});
      if (bounded) memory = memory_with(record, n, groups.back());
    }
    groups[static_cast<size_t>(g)].nodes.push_back(n);
    groups[static_cast<size_t>(g)].memory = std::move(memory);
    for (int i = 0; i < node.outputs + node.inputs; ++i) {
      if (at[i].buffer < 0) continue;
      const auto b = static_cast<size_t>(at[i].buffer);
      if (i < node.outputs) {
        writes_[b].add(g, node.shape, at[i]);
      } else {
        reads_[b].add(g, node.shape, at[i]);
        last_read[b] = std::max(last_read[b], g);
      }
    }
  }
};

// ---- the steps of a group ----

class Steps {
 public:
  Steps(const Record& record, const Grouping& grouping, size_t index, const std::vector<bool>& held, Plan& plan)
      : record_(record), plan_(plan), grouping_(grouping), index_(static_cast<int32_t>(index)), held_(held) {
    const Grouping::Group& from = grouping.groups[index];
    group_.shape = from.shape;
    group_.apart = from.apart;
    group_.nodes = from.nodes;
    for (const uint32_t n : from.nodes) add(n);
    if (from.reduction >= 0) add_reduction(static_cast<uint32_t>(from.reduction));
    store_last();
    give_slots();
  }
  PlanGroup take() { return std::move(group_); }

 private:
  const Record& record_;
  Plan& plan_;
  const Grouping& grouping_;
  int32_t index_;
  const std::vector<bool>& held_;
  PlanGroup group_;
  struct Version {
    uint32_t reg, operand, step;  // step: the one that makes it
    bool common;                  // it was computed before, for another buffer
  };
  std::map<int32_t, Version> now_;                                   // by buffer, of those that the group writes
  std::map<std::vector<uint64_t>, uint32_t> sources_;                // registers of what is read
  std::map<std::vector<uint64_t>, std::vector<uint32_t>> computed_;  // of what is computed

  uint32_t make(PlanRegister r) {
    group_.registers.push_back(r);
    return static_cast<uint32_t>(group_.registers.size() - 1);
  }
  uint32_t one_step(PlanStep step, std::initializer_list<uint32_t> registers) {
    step.first = static_cast<uint32_t>(group_.used.size());
    group_.used.insert(group_.used.end(), registers);
    group_.steps.push_back(step);
    return static_cast<uint32_t>(group_.steps.size() - 1);
  }
  uint32_t converted(uint32_t reg, ScalarType want) {
    if (group_.registers[reg].dtype == want) return reg;
    const auto [at, fresh] = sources_.try_emplace({2, reg, static_cast<uint64_t>(want)});
    if (fresh) {
      at->second = make({.dtype = want});
      PlanStep step;
      step.kind = PlanStep::Kind::Convert;
      one_step(step, {at->second, reg});
    }
    return at->second;
  }
  // The register with an input's elements, of the type that the loop reads.
  uint32_t source(uint32_t operand, ScalarType want) {
    const RecordOperand& o = record_.operands[operand];
    if (const auto written = now_.find(o.buffer); o.buffer >= 0 && written != now_.end()) {
      return converted(written->second.reg, want);
    }
    if (o.buffer < 0 || o.layout == Layout::Constant) {
      const std::vector<uint64_t> key = {0,
                                         static_cast<uint64_t>(o.buffer),
                                         o.buffer < 0 ? number_id(o.at) : 0,
                                         static_cast<uint64_t>(o.offset),
                                         static_cast<uint64_t>(o.dtype),
                                         static_cast<uint64_t>(want)};
      const auto [at, fresh] = sources_.try_emplace(key);
      if (fresh) {
        at->second = make({.kind = PlanRegister::Kind::Fill, .dtype = want, .read = o.dtype, .operand = operand});
      }
      return at->second;
    }
    const std::vector<uint64_t> key = {1,
                                       static_cast<uint64_t>(o.buffer),
                                       static_cast<uint64_t>(o.layout),
                                       static_cast<uint64_t>(o.offset),
                                       static_cast<uint64_t>(o.dtype),
                                       o.layout == Layout::Strided ? o.at : 0};
    const auto [at, fresh] = sources_.try_emplace(key);
    if (fresh && o.layout == Layout::Dense) {
      at->second = make({.kind = PlanRegister::Kind::Memory, .dtype = o.dtype, .operand = operand});
    } else if (fresh) {
      at->second = make({.dtype = o.dtype});
      PlanStep step;
      step.kind = PlanStep::Kind::Gather;
      step.operand = operand;
      one_step(step, {at->second});
    }
    return converted(at->second, want);
  }
  // Equal numbers have one; the tape says which are equal.
  uint64_t number_id(uint32_t at) const { return record_.number_ids[at]; }

  void add_copy(const RecordNode& node) {
    const RecordOperand& out = record_.operands[node.operands];
    uint32_t reg = converted(source(node.operands + 1, record_.operands[node.operands + 1].dtype), out.dtype);
    if (group_.registers[reg].kind != PlanRegister::Kind::Tile) reg = convert_result(reg, out.dtype);
    now_[out.buffer] = {reg, node.operands, static_cast<uint32_t>(group_.steps.size() - 1), false};
    forget(out.buffer);
  }
  // What it reads was made in the group, unless it is alone in it.
  void add_reduction(uint32_t n) {
    group_.reduction = static_cast<int32_t>(n);
    const RecordOperand& in = record_.operands[record_.nodes[n].operands + 1];
    const auto made = now_.find(in.buffer);
    if (made != now_.end()) group_.piece = made->second.reg;
  }
  bool is_piece(uint32_t reg) const { return group_.reduction >= 0 && !group_.steps.empty() && group_.piece == reg; }

  void add(uint32_t n) {
    const RecordNode& node = record_.nodes[n];
    if (node.kind == RecordNode::Kind::Reduce) return;
    if (node.kind == RecordNode::Kind::Copy) return add_copy(node);
    const uint32_t ins = node.operands + node.outputs;
    std::vector<uint32_t> inputs;
    std::vector<uint64_t> key = {reinterpret_cast<uintptr_t>(node.op), static_cast<uint64_t>(node.compute),
                                 node.present};
    for (uint32_t i = 0; i < node.values; ++i) key.push_back(number_id(node.value + i));
    for (uint32_t i = 0; i < node.inputs; ++i) {
      const ScalarType want = (node.op->masks >> i & 1u) != 0 ? ScalarType::Bool : node.compute;
      inputs.push_back(source(ins + i, want));
      key.push_back(inputs.back());
    }
    for (uint32_t i = 0; i < node.outputs; ++i) {
      key.push_back(static_cast<uint64_t>(record_.operands[node.operands + i].dtype));
    }
    const auto [at, fresh] = computed_.try_emplace(std::move(key));
    uint32_t step = 0;
    if (fresh) {
      std::vector<uint32_t> made;
      for (uint32_t i = 0; i < node.outputs; ++i) made.push_back(make({.dtype = node.produced}));
      PlanStep loop;
      loop.node = n;
      loop.outs = node.outputs;
      loop.ins = node.inputs;
      loop.first = static_cast<uint32_t>(group_.used.size());
      group_.used.insert(group_.used.end(), made.begin(), made.end());
      group_.used.insert(group_.used.end(), inputs.begin(), inputs.end());
      group_.steps.push_back(loop);
      for (uint32_t i = 0; i < node.outputs; ++i) {
        const ScalarType kept = record_.operands[node.operands + i].dtype;
        at->second.push_back(kept == node.produced ? made[i] : convert_result(made[i], kept));
      }
    } else {
      ++plan_.common;
    }
    step = static_cast<uint32_t>(group_.steps.size() - 1);
    for (uint32_t i = 0; i < node.outputs; ++i) {
      now_[record_.operands[node.operands + i].buffer] = {at->second[i], node.operands + i, step, !fresh};
    }
    // What was read of a buffer before its change is another value than what is read now.
    for (uint32_t i = 0; i < node.outputs; ++i) forget(record_.operands[node.operands + i].buffer);
  }
  uint32_t convert_result(uint32_t reg, ScalarType want) {
    const uint32_t to = make({.dtype = want});
    PlanStep step;
    step.kind = PlanStep::Kind::Convert;
    one_step(step, {to, reg});
    return to;
  }
  void forget(int32_t buffer) {
    std::erase_if(sources_, [&](const auto& s) {
      return s.first[0] != 2 && static_cast<int32_t>(s.first[1]) == buffer && buffer >= 0;
    });
  }

  // Values that somebody reads after the group go to their memory.
  void store_last() {
    for (const auto& [buffer, version] : now_) {
      const auto b = static_cast<size_t>(buffer);
      if (!held_[b] && grouping_.last_read[b] <= index_) continue;
      PlanRegister& r = group_.registers[version.reg];
      if (r.kind == PlanRegister::Kind::Tile && !r.stored && !version.common && !is_piece(version.reg)) {
        r.stored = true;
        r.operand = version.operand;
      } else {
        group_.copies.push_back({version.reg, version.operand, version.step});
      }
    }
  }

  // Places in the tile, taken again once their value has been read for the last time.
  void give_slots() {
    std::vector<uint32_t> last(group_.registers.size(), 0);
    for (uint32_t s = 0; s < group_.steps.size(); ++s) {
      for (const uint32_t r : registers_of(s)) last[r] = s;
    }
    for (const PlanCopy& c : group_.copies) last[c.from] = std::max(last[c.from], c.after);
    if (group_.reduction >= 0 && !group_.steps.empty()) last[group_.piece] = static_cast<uint32_t>(group_.steps.size());
    std::vector<int32_t> free;
    const auto take = [&](PlanRegister& r) {
      group_.widest = std::max(group_.widest, static_cast<int64_t>(itemsize(r.dtype)));
      if (!free.empty()) {
        r.slot = free.back();
        free.pop_back();
      } else {
        r.slot = group_.slots++;
      }
    };
    for (PlanRegister& r : group_.registers) {
      if (r.kind == PlanRegister::Kind::Fill) take(r);
    }
    for (uint32_t s = 0; s < group_.steps.size(); ++s) {
      for (const uint32_t at : registers_of(s)) {
        PlanRegister& r = group_.registers[at];
        if (r.kind == PlanRegister::Kind::Tile && r.slot < 0) take(r);
      }
      for (const uint32_t at : registers_of(s)) {
        PlanRegister& r = group_.registers[at];
        if (r.kind == PlanRegister::Kind::Tile && last[at] == s && r.slot >= 0) {
          if (std::find(free.begin(), free.end(), r.slot) == free.end()) free.push_back(r.slot);
        }
      }
    }
  }
  std::span<const uint32_t> registers_of(uint32_t s) const {
    const PlanStep& step = group_.steps[s];
    const size_t n = step.kind == PlanStep::Kind::Loop      ? size_t{step.outs} + step.ins
                     : step.kind == PlanStep::Kind::Convert ? 2
                                                            : 1;
    return std::span<const uint32_t>(group_.used).subspan(step.first, n);
  }
};

// ---- plans that are kept ----

class Plans {
 public:
  static constexpr size_t kLimit = 1024;

  std::shared_ptr<const Plan> find(uint64_t hash, const std::vector<uint64_t>& tape) {
    const std::lock_guard lock(mutex_);
    const auto [from, to] = at_.equal_range(hash);
    for (auto i = from; i != to; ++i) {
      if ((*i->second)->tape != tape) continue;
      plans_.splice(plans_.begin(), plans_, i->second);
      ++counts_.hits;
      return plans_.front();
    }
    ++counts_.misses;
    return nullptr;
  }
  void add(uint64_t hash, std::shared_ptr<const Plan> plan) {
    const std::lock_guard lock(mutex_);
    plans_.push_front(std::move(plan));
    at_.emplace(hash, plans_.begin());
    if (plans_.size() <= kLimit) return;
    const auto last = std::prev(plans_.end());
    for (auto i = at_.begin(); i != at_.end(); ++i) {
      if (i->second == last) {
        at_.erase(i);
        break;
      }
    }
    plans_.pop_back();
  }
  PlanCounts counts() {
    const std::lock_guard lock(mutex_);
    PlanCounts c = counts_;
    c.size = plans_.size();
    c.limit = kLimit;
    return c;
  }
  void clear() {
    std::list<std::shared_ptr<const Plan>> gone;
    const std::lock_guard lock(mutex_);
    at_.clear();
    gone.swap(plans_);
    counts_ = {};
  }

 private:
  YieldLock mutex_;
  std::list<std::shared_ptr<const Plan>> plans_;  // last used ones first
  std::unordered_multimap<uint64_t, std::list<std::shared_ptr<const Plan>>::iterator> at_;
  PlanCounts counts_;
};

Plans& plans() {
  static Plans* const all = new Plans;  // used until the very end
  return *all;
}

}  // namespace

Plan make_plan_of(const Record& record, const std::vector<bool>& held) {
  Plan plan;
  plan.tape = record.tape;
  const std::vector<bool> needed = needed_nodes(record, held);
  plan.dead = static_cast<uint32_t>(std::count(needed.begin(), needed.end(), false));
  const Grouping grouping(record, needed, held);
  for (size_t g = 0; g < grouping.groups.size(); ++g) {
    plan.groups.push_back(Steps(record, grouping, g, held, plan).take());
    if (record.device.type != kCPU && grouping.groups[g].reduction < 0) {
      plan.groups.back().form = form_of(plan.groups.back(), record);
    }
  }
  // Memory of values that only groups read is there from the first to the last of them.
  std::vector<bool> has(record.buffers.size());
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    for (const uint32_t n : plan.groups[g].nodes) {
      const RecordNode& node = record.nodes[n];
      for (int i = 0; i < node.outputs; ++i) {
        const int32_t b = record.operands[node.operands + static_cast<size_t>(i)].buffer;
        const auto at = static_cast<size_t>(b);
        if (has[at] || held[at] || !record.buffers[at].fresh || grouping.last_read[at] <= static_cast<int32_t>(g)) {
          continue;
        }
        has[at] = true;
        plan.groups[g].lent.push_back(b);
        plan.groups[static_cast<size_t>(grouping.last_read[at])].returned.push_back(b);
      }
    }
  }
  plan.rows = record.device.type == kCPU ? find_rows(record, plan, held) : find_device_rows(record, plan, held);
  return plan;
}

std::shared_ptr<const Plan> find_plan(Record& record, const std::vector<bool>& held) {
  uint64_t word = 1;
  for (const bool h : held) {
    word = word << 1 | (h ? 1u : 0u);
    if (word >> 62 != 0) {
      record.add_to_tape(word);
      word = 1;
    }
  }
  record.add_to_tape(word);
  record.add_to_tape(
      static_cast<uint64_t>(record.device.type));  // plans of devices have what those of the CPU have not
  if (auto plan = plans().find(record.hash, record.tape)) return plan;
  auto plan = std::make_shared<const Plan>(make_plan_of(record, held));
  plans().add(record.hash, plan);
  return plan;
}

PlanCounts plan_counts() { return plans().counts(); }
void clear_plans() { plans().clear(); }

}  // namespace facula::detail
