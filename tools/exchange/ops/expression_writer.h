// Expressions (graph/expression.h) as ONNX nodes, an instruction each.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/expression.h"
#include "tools/exchange/onnx_op.h"

namespace moka {

// Writes the results of one expression over the inputs of a node; what several of them need is written once.
// Comparisons are 0 and 1 in an expression and bool in ONNX: they are cast where they are read as numbers.
class ExpressionWriter {
 public:
  ExpressionWriter(OnnxNode& node, const Expression& expression) : n_(node), expression_(expression) {}

  // The name of the value of an instruction. Errors: kConfig for numbers that are drawn.
  std::string Value(int32_t i);
  // Output `output` of the node becomes the value of an instruction.
  void Give(int32_t i, int output);

 private:
  // An ONNX node that is about to be added.
  struct Part {
    std::string type;
    std::vector<std::string> inputs;
  };

  const Instruction& At(int32_t i) const { return expression_.instructions()[static_cast<size_t>(i)]; }
  Part PartOf(int32_t i);
  // The same value as a bool.
  std::string Condition(int32_t i);

  OnnxNode& n_;
  const Expression& expression_;
  std::map<int32_t, std::string> values_;
  std::map<int32_t, std::string> conditions_;
};

}  // namespace moka
