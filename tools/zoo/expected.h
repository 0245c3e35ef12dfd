// models/NAME/expected.json: what `moka zoo verify NAME --update` measured of an entry, and every later verify must
// find again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/zoo/net_values.h"

namespace moka {

// An output of the deployed or the test net on the made-up batch.
struct ExpectedOutput {
  std::string net;  // "deploy" or "test"
  std::string blob;
  BlobSummary summary;
};

struct ExpectedTraining {
  int64_t batch = 0;
  int64_t steps = 0;
  double first_loss = 0;
  double last_loss = 0;
};

// Planned memory of a training step with the recipe's own batch: activations, gradients and scratch.
struct ExpectedMemory {
  int64_t batch = 0;
  int64_t bytes = 0;
};

struct Expected {
  int64_t parameters = 0;  // of the train net
  int64_t statistics = 0;
  int64_t deployed_parameters = 0;
  int64_t macs = 0;   // of one sample, deployed
  std::string input;  // "data [3,32,32]" of one sample
  std::vector<ExpectedOutput> outputs;
  std::optional<ExpectedTraining> training;
  std::optional<ExpectedMemory> memory;
};

inline constexpr std::string_view kExpectedFile = "expected.json";

// None where the folder has no such file. Errors: kBadData naming what is wrong in it.
std::optional<Expected> ReadExpected(const std::filesystem::path& folder);
// Errors: kCantCreate, kIo.
void WriteExpected(const Expected& expected, const std::filesystem::path& folder);

}  // namespace moka
