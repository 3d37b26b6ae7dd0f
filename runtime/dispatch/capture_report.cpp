// What a record that runs is told of, for those who ask.
#include <algorithm>

#include "runtime/dispatch/capture.h"

namespace facula {

using namespace detail;  // NOLINT: plans are its subject

void Capture::report(const Plan& plan, const char* reason) {
  CaptureReport report;
  report.reason = reason;
  report.dead = plan.dead;
  report.common = plan.common;
  std::vector<int64_t> writer(record_.buffers.size(), -1);
  for (const PlanGroup& g : plan.groups) {
    CaptureReport::Group to;
    const RecordShape& shape = record_.shapes[g.shape];
    to.sizes = shape.sizes;
    to.apart = g.apart;
    const auto bytes = [&](uint32_t operand) {
      const RecordOperand& o = record_.operands[operand];
      return o.layout == Layout::Constant ? 0 : shape.numel * static_cast<int64_t>(itemsize(o.dtype));
    };
    for (const uint32_t n : g.nodes) {
      const RecordNode& node = record_.nodes[n];
      to.operators.push_back(concat(node.name, " ", record_.places[n]));
      for (uint32_t i = 0; i < uint32_t{node.outputs} + node.inputs; ++i) {
        to.before += bytes(node.operands + i);
        if (i < node.outputs &&
            record_.buffers[static_cast<size_t>(record_.operands[node.operands + i].buffer)].fresh) {
          to.memory += bytes(node.operands + i);
        }
      }
    }
    const auto each_operand = [&](bool outputs, const auto& f) {
      for (const uint32_t n : g.nodes) {
        const RecordNode& node = record_.nodes[n];
        const uint32_t from = outputs ? 0 : node.outputs, until = node.outputs + (outputs ? 0u : node.inputs);
        for (uint32_t i = from; i < until; ++i) {
          const int32_t b = record_.operands[node.operands + i].buffer;
          if (b >= 0) f(writer[static_cast<size_t>(b)]);
        }
      }
    };
    const auto number = static_cast<int64_t>(report.groups.size());
    each_operand(false, [&](int64_t by) {
      const auto use = static_cast<uint32_t>(by);
      if (by >= 0 && std::find(to.uses.begin(), to.uses.end(), use) == to.uses.end()) to.uses.push_back(use);
    });
    each_operand(true, [&](int64_t& by) { by = number; });
    for (const PlanRegister& r : g.registers) {
      if (r.kind != PlanRegister::Kind::Memory && !r.stored) continue;
      to.after += bytes(r.operand);
      if (r.stored && record_.buffers[static_cast<size_t>(record_.operands[r.operand].buffer)].fresh) {
        to.memory -= bytes(r.operand);
      }
    }
    for (const PlanStep& s : g.steps) {
      if (s.kind == PlanStep::Kind::Gather) to.after += bytes(s.operand);
    }
    for (const PlanCopy& c : g.copies) {
      to.after += bytes(c.operand);
      if (record_.buffers[static_cast<size_t>(record_.operands[c.operand].buffer)].fresh) to.memory -= bytes(c.operand);
    }
    report.groups.push_back(std::move(to));
  }
  for (const PlanRows& rows : plan.rows) {
    for (uint32_t g = rows.first + 1; g < rows.last; ++g) {
      report.groups[g].apart += rows.form ? "; it is one call with the one before, row by row"
                                          : "; it runs with the one before, block of rows by block of rows";
    }
  }
  reports_.push_back(std::move(report));
}

}  // namespace facula
