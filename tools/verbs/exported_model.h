// The net of a run or a model as `moka export` writes it: built for inference, with its weights, and how its pictures
// go in.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "graph/parameter_store.h"
#include "layers/net/net.h"
#include "tools/exchange/onnx_export.h"
#include "tools/infer/source.h"

namespace moka {

// A net for inference and its blobs, as a file of weights holds them. `net` has its layers in the order of its text.
struct ExportedWeights {
  ParameterStore store;
  std::optional<BuiltNet> net;
  // How pictures go in, as the file's metadata say it; null where the net's input is no picture, or nothing says it.
  nlohmann::json preprocessing;
};

// The same for a file of nodes.
struct ExportedModel {
  ExportedWeights trained;
  std::optional<BuiltNet> other;  // the same for another batch; none: the batch is fixed
  int64_t batch = 0;
  int64_t other_batch = 0;
  std::optional<OnnxPreparation> preparation;  // how pictures go in, as nodes
  int64_t parameters = 0;                      // learned numbers and statistics
  int64_t integers = 0;                        // convolutions on 8-bit integers

  ExportedNet Net() const;
};

// How pictures go into a file whose graph prepares them: pixels of 0 to 255, channels R, G, B or grey.
nlohmann::json PreparedPreprocessingOf(const nlohmann::json& preprocessing);

// The same way of pictures as PyTorch's modules have it: pixels of 0 to 1, channels R, G, B.
nlohmann::json TorchPreprocessingOf(const nlohmann::json& preprocessing);

// Errors: those of reading and building the net and of loading its weights.
std::unique_ptr<ExportedWeights> WeightsForExport(const InferSource& source);

// `batch` 0: any number of images. Noise that a net draws becomes an input. Errors: those of reading and building the
// net and of loading its weights; kConfig for a net that cannot be built for any number of images, or has no output.
std::unique_ptr<ExportedModel> ModelForExport(const InferSource& source, int64_t batch);

}  // namespace moka
