// The attributes of an ONNX node, by name, with ONNX's defaults given by whoever asks.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "proto/onnx.pb.h"
#include "tools/exchange/onnx_model.h"

namespace moka {

using AttributeNames = std::set<std::string, std::less<>>;

// Looks at a node that must outlive it. Errors of all: kConfig for an attribute of another type.
class NodeAttributes {
 public:
  // Each name that is asked for is put into `asked`, which must outlive it.
  explicit NodeAttributes(const onnx::NodeProto& node, AttributeNames* asked = nullptr) : node_(&node), asked_(asked) {}

  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  int64_t Int(std::string_view name, int64_t fallback) const;
  double Float(std::string_view name, double fallback) const;
  std::string Text(std::string_view name, std::string_view fallback) const;
  Ints List(std::string_view name, Ints fallback = {}) const;
  std::vector<float> Floats(std::string_view name) const;
  // Nothing if there is none. Errors: those of OnnxTensorReader; a tensor beside the file is refused.
  std::optional<OnnxTensor> Tensor(std::string_view name) const;

 private:
  const onnx::AttributeProto* Find(std::string_view name) const;
  // Null if there is none.
  const onnx::AttributeProto* OfType(std::string_view name, onnx::AttributeProto::AttributeType type) const;

  const onnx::NodeProto* node_;
  AttributeNames* asked_;
};

}  // namespace moka
