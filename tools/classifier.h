// A trained net that classifies pictures: decode, transform, run, rank.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/image.h"
#include "data/transform.h"
#include "graph/parameter_store.h"
#include "graph/program.h"
#include "layers/net.h"

namespace moka {

struct ClassifierOptions {
  std::filesystem::path net;     // deploy or training prototxt
  std::string weights;           // file, or comma list
  std::filesystem::path labels;  // class names, one a line; empty: numbers
  std::filesystem::path base_folder;
  int64_t batch = 1;
  std::vector<std::string> overrides;
  CompileOptions compile;
  bool has_precision = false;  // compile.compute stands, whatever the net says
};

struct Prediction {
  int64_t label = 0;
  std::string name;
  double score = 0;
};

// One thread.
class Classifier {
 public:
  // Errors: those of reading and building the net and of loading the weights; kConfig when the first input is no
  // picture or the output is not [N,classes,...].
  explicit Classifier(const ClassifierOptions& options);

  int64_t batch() const { return batch_; }
  const Program& program() const { return *program_; }
  // Top predictions of each file, best first. Errors: kNoInput, kBadData naming the file.
  std::vector<std::vector<Prediction>> Classify(std::span<const std::filesystem::path> files, int64_t top);

 private:
  void LoadPicture(const std::filesystem::path& file, int64_t slot);
  std::vector<Prediction> Rank(int64_t slot, int64_t top) const;

  int64_t batch_;
  ParameterStore store_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<Transform> transform_;
  ImageDecoder decoder_;
  TransformScratch scratch_;
  Tensor input_;
  Tensor output_;
  std::vector<std::string> names_;
};

}  // namespace moka
