// The table by which a net and a module of PyTorch call the same weights: names.torch.tsv in the folder of a model. It
// is data, written for each net and never guessed by order: a ResNet of torchvision lists a block's shortcut behind its
// convolutions, one of He's names before them. Lines are columns between tabs, and "#" begins a comment's line:
//
//   @module   torchvision.models.resnet18
//   @mean     0.485  0.456  0.406     of red, green and blue in 0..1, subtracted
//   @std      0.229  0.224  0.225     divides then
//   @leaves_out   aux_classifier.     tensors of names that begin so are of a part that the net lacks
//   conv1.weight   conv1/0    rgb     its input channels are red, green and blue there, and blue, green and red here
//   fc.bias        fc1000/1   classes   a value or row a class
//   bn1.bias       scale_conv1/1
//
// A model whose namesake is another net says so, in place of all rows: "@differs" and how.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

inline constexpr std::string_view kTorchNamesFile = "names.torch.tsv";

struct TorchNames {
  struct Row {
    std::string tensor;  // in PyTorch: "layer1.0.bn2.running_mean"
    std::string layer;   // of the net
    int index = 0;       // of the layer's blob
    bool is_rgb = false;
    bool is_of_classes = false;
    int line = 0;  // of the file
  };

  std::string file;
  std::string module;
  std::string difference = {};     // not empty: the module's weights are not the net's; there are no rows
  std::vector<double> means = {};  // of R, G, B in 0..1; empty: no row has the word rgb
  std::vector<double> deviations = {};
  std::vector<std::string> left_out = {};  // beginnings of names
  std::vector<Row> rows = {};
};

// Errors: kNoInput, those of ReadTextFile; kConfig at file:line:column for a line that is none of these, a name that
// stands twice, and what a table lacks.
TorchNames ReadTorchNames(const std::filesystem::path& file);
TorchNames TorchNamesFromText(std::string_view text, const std::string& file);

}  // namespace moka
