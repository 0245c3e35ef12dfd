// An ONNX graph that is being written: names, nodes, constants, shapes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/attributes.h"
#include "tools/exchange/graph_constants.h"
#include "tools/exchange/onnx_dims.h"
#include "tools/exchange/onnx_model.h"

namespace moka {

// Values of the net keep their names where these are unique; others are called after their layer. One thread.
class OnnxGraph {
 public:
  // The net and the constants must outlive it. `names` of values come first, and nothing else is called so.
  OnnxGraph(const BatchedGraph& net, GraphConstants& constants, int64_t opset,
            const std::map<ValueId, std::string>& names);

  const Graph& graph() const { return *net_.graph; }
  const BatchedGraph& net() const { return net_; }
  GraphConstants& constants() const { return constants_; }
  int64_t opset() const { return opset_; }

  // The name under which nodes read a value; a constant is added first. Errors: kConfig for a constant that follows the
  // batch.
  std::string Read(ValueId value);
  // The name under which a node gives it.
  const std::string& NameOf(ValueId value);
  // Nodes read the value under this name from now on.
  void Rename(ValueId value, std::string name) { names_[value] = std::move(name); }
  // The name, with a number behind it where it is taken.
  std::string Unique(const std::string& name);

  // Adds a constant and returns its name.
  std::string AddTensor(OnnxTensor tensor);
  // A number without dimensions; equal ones are one constant.
  std::string Scalar(double value);
  void AddNode(std::string_view type, const std::string& name, const std::vector<std::string>& inputs,
               const std::vector<std::string>& outputs, const Attributes& attributes);

  // Ends the graph: its outputs are called `outputs`, its inputs are those that a node reads; of other values that are
  // results shapes are noted.
  OnnxModel Finish(const std::vector<ValueId>& inputs, const std::vector<GraphOutput>& outputs);

 private:
  void Describe(onnx::ValueInfoProto& info, const std::string& name, ValueId value) const;

  const BatchedGraph& net_;
  GraphConstants& constants_;
  int64_t opset_;
  OnnxModel model_;
  std::map<ValueId, std::string> names_;
  std::map<ValueId, std::string> added_;  // constants
  std::map<std::string, std::string> scalars_;
  std::set<std::string> taken_;
};

}  // namespace moka
