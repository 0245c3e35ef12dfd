// Small nets for tests of the export to ONNX: built, filled with numbers, written, and looked at.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/text.h"
#include "layers/net/net.h"
#include "optim/checkpoint/net_weights.h"
#include "tools/exchange/onnx_export.h"

namespace moka {

// A net that was built for two batches, its blobs filled with numbers that differ.
struct Built {
  ParameterStore store;
  std::optional<BuiltNet> net;
  std::optional<BuiltNet> other;
  int64_t batch = 2;

  ExportedNet Net() const {
    return {.name = "net",
            .graphs = {.graph = &net->graph,
                       .batch = batch,
                       .other = other ? &other->graph : nullptr,
                       .other_batch = batch + 1},
            .store = &store};
  }
};

inline std::string InputOf(int64_t batch, const std::string& sample) {
  return StrCat("layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: ", batch, " ", sample,
                " } } }\n");
}

inline BuiltNet BuildOne(const std::string& text) {
  NetParameter net;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &net)) << text;
  NetOptions options;
  options.state.set_phase(TEST);
  BuiltNet built = BuildNet(net, options);
  for (const BuiltNet::Output& output : built.outputs) built.graph.AddOutput(output.name, output.value);
  return built;
}

inline std::unique_ptr<Built> Build(const std::string& sample, const std::string& layers, bool any_batch = true,
                                    const std::shared_ptr<const Quantization>& ranges = nullptr) {
  auto built = std::make_unique<Built>();
  built->net.emplace(BuildOne(InputOf(built->batch, sample) + layers));
  if (any_batch) built->other.emplace(BuildOne(InputOf(built->batch + 1, sample) + layers));
  AddBlobs(built->net->blobs, 1, built->store);
  for (const NetBlob& blob : built->net->blobs) {
    std::vector<float> values(static_cast<size_t>(blob.shape.Count()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.5F + 0.25F * static_cast<float>(i % 7);
    built->store.Set(blob.name, values);
  }
  PrepareForExport(built->net->graph, built->store, ranges);
  if (built->other) PrepareForExport(built->other->graph, built->store, ranges);
  return built;
}

inline OnnxModel Export(const Built& built, int64_t opset = kUsualOpset) {
  return ExportOnnx(built.Net(), {.opset = opset});
}

inline OnnxModel Export(const std::string& sample, const std::string& layers, int64_t opset = kUsualOpset) {
  return Export(*Build(sample, layers), opset);
}

inline std::vector<std::string> TypesIn(const OnnxModel& model) {
  std::vector<std::string> types;
  for (const onnx::NodeProto& node : model.proto.graph().node()) types.push_back(node.op_type());
  return types;
}

inline const onnx::NodeProto& NodeOf(const OnnxModel& model, const std::string& type) {
  for (const onnx::NodeProto& node : model.proto.graph().node()) {
    if (node.op_type() == type) return node;
  }
  ADD_FAILURE() << "no node " << type;
  return model.proto.graph().node(0);
}

inline Ints IntsOf(const onnx::NodeProto& node, const std::string& name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name && attribute.type() == onnx::AttributeProto::INTS)
      return {attribute.ints().begin(), attribute.ints().end()};
    if (attribute.name() == name && attribute.type() == onnx::AttributeProto::INT) return {attribute.i()};
  }
  return {};
}

inline double FloatIn(const onnx::NodeProto& node, const std::string& name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return static_cast<double>(attribute.f());
  }
  return NAN;
}

inline const OnnxTensor* TensorOf(const OnnxModel& model, const std::string& name) {
  const auto found = std::ranges::find(model.tensors, name, &OnnxTensor::name);
  return found == model.tensors.end() ? nullptr : &*found;
}

// "data [N,3,8,8]".
inline std::string TextIn(const onnx::ValueInfoProto& value) {
  std::vector<std::string> dims;
  for (const onnx::TensorShapeProto::Dimension& dim : value.type().tensor_type().shape().dim())
    dims.push_back(dim.has_dim_param() ? dim.dim_param() : std::to_string(dim.dim_value()));
  return StrCat(value.name(), " [", Join(dims, ","), "]");
}

inline std::string Layer(const std::string& name, const std::string& type, const std::string& bottoms,
                         const std::string& more) {
  std::string text = StrCat("layer { name: '", name, "' type: '", type, "' top: '", name, "' ");
  for (const std::string& bottom : Split(bottoms, ' ')) text += StrCat("bottom: '", bottom, "' ");
  return StrCat(text, more, " }\n");
}

}  // namespace moka
