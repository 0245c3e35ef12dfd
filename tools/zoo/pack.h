// Trained weights for the zoo: what a run has learned becomes a file in the entry's folder and a row of its card, after
// they were tested as the recipe tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "proto/zoo.pb.h"
#include "tools/zoo/entry.h"

namespace moka {

// The most bytes that all models together may carry.
inline constexpr int64_t kMostZooBytes = 60'000'000;

struct WeightsTest {
  double value = 0;
  int64_t samples = 0;  // 0: not counted, as sentences of a translator
};
// The recipe's metric by a file of weights over all of the first test net's data, in float32. Errors: kConfig where the
// test net has no such metric; those of the data and of LoadTrainedWeights.
WeightsTest TestWeights(const ZooEntry& entry, const ZooRecipe& recipe, const std::filesystem::path& weights);

// Whether a metric that falls is the better one, as a loss.
bool IsSmallerBetter(const ZooRecipe& recipe, const NetParameter& test);

// The local weights of all models of a folder, in bytes, by their cards. `except`: a model that is left out.
int64_t ZooBytes(const std::filesystem::path& models, const std::string& except = {});

struct PackOptions {
  std::filesystem::path models;
  std::filesystem::path runs = "runs";
  std::string solver = "solver.prototxt";  // the recipe's
  enum class Numbers : uint8_t { kAuto, kFloat32, kFloat16 };
  Numbers numbers = Numbers::kAuto;  // float16 where the metric holds
  double most_loss = 0.0005;         // of the metric by rounding to float16, as a part of its value
  bool is_tested = true;             // false: nothing is tested, and the card has no metric
};

struct Packed {
  std::string model;                    // its name
  ZooWeights row = {};                  // as it stands in the card now
  std::optional<double> float32 = {};   // the metric of the weights as they were trained
  std::optional<double> float16 = {};   // and rounded, where that was tried
  std::vector<std::string> files = {};  // written, in the entry's folder
};

// Takes the weights of RUN or RUN@WHICH (the best checkpoint, with the means that its tests ranked) that the entry's
// nets have, writes them, the files that inference reads with them, the card's row, and the tables of both READMEs.
// Errors: kNoInput without such a run, checkpoint or test data; kBadData where nets and weights differ; kVerification
// where float16 was asked for and the metric does not hold, or where all models together would carry more than
// kMostZooBytes. Nothing is changed then.
Packed PackWeights(const std::string& run, const std::string& name, const PackOptions& options);

}  // namespace moka
