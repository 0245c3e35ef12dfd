// A net for inference as an ONNX model.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/parameter_store.h"
#include "graph/quantization.h"
#include "tools/exchange/onnx_dims.h"
#include "tools/exchange/onnx_model.h"

namespace moka {

inline constexpr int64_t kFirstOpset = 11;
inline constexpr int64_t kLastOpset = 22;
// Every runtime of the last years reads it, OpenCV's importer included.
inline constexpr int64_t kUsualOpset = 13;
// The first whose QuantizeLinear takes a scale for each channel.
inline constexpr int64_t kFirstInt8Opset = 13;

// The way of a picture's values, 0 to 255 with its channels in the order red, green, blue, to the net's input; nodes in
// front of the net go it.
struct OnnxPreparation {
  std::string input;  // a graph input [N,C,H,W]
  bool reverses_channels = false;
  OnnxTensor mean = {};    // subtracted; [1,C,1,1] or [1,C,H,W]
  OnnxTensor factor = {};  // multiplied with; [1,C,1,1]
};

// A net to be exported. Its states are constants, which the store has.
struct ExportedNet {
  std::string name;
  BatchedGraph graphs;
  const ParameterStore* store = nullptr;
};

struct OnnxOptions {
  int64_t opset = kUsualOpset;
  std::map<std::string, std::string> metadata = {};
  std::optional<OnnxPreparation> preparation = {};
  std::string producer_version = {};
};

// Removes what a net for inference does not need and joins batch norms: what ExportOnnx expects. `store`: of the
// states. With ranges, convolutions run on 8-bit integers where Moka's do. Errors: those of QuantizeInference.
void PrepareForExport(Graph& graph, const ParameterStore& store,
                      const std::shared_ptr<const Quantization>& ranges = nullptr);

// Errors: an ErrorList of kBadData with every layer that has no form in ONNX, at its place.
OnnxModel ExportOnnx(const ExportedNet& net, const OnnxOptions& options);

}  // namespace moka
