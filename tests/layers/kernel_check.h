// Running one kernel of the catalogue on one node under chosen layouts, checked against the op's reference.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/op.h"

namespace moka {

// The layouts that a kernel is run with, by name ("aBcd16b"); empty or missing: plain.
struct ChosenLayouts {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};

struct Checked {
  std::string refusal;         // why it was not run; empty if it was
  std::string implementation;  // what ran
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
  double worst_error = 0;  // of float outputs, relative to the largest magnitude
};

// Runs the kernel with exactly these layouts and expects the reference's values, zero padding and a second run's
// equality. Opaque padding (of integer outputs) is not looked at.
Checked CheckKernel(std::string_view kernel, std::string_view op, const OpCase& op_case, const ChosenLayouts& layouts);
// The same under the layouts the kernel proposes when its inputs lie as said.
Checked CheckProposal(std::string_view kernel, std::string_view op, const OpCase& op_case,
                      const ChosenLayouts& current);

// Layout names of types, plain spelled out.
std::vector<std::string> LayoutNames(const std::vector<TensorType>& types);

}  // namespace moka
