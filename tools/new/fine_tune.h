// The net that a new model starts from (`moka new --from`): its layers without data and losses, a new classifier in the
// old one's place, and everything else at a tenth of the rate.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/types.h"
#include "tools/nets/test_source.h"

namespace moka {

struct StartNet {
  std::string word;               // --from, as it was typed
  std::filesystem::path weights;  // the file that is copied into the model's folder
  std::string layers;             // text of all layers between the data and the scores
  std::string input;              // the blob that pictures go in as
  std::string scores;             // the blob of the classes' scores
  std::string classifier;         // the new layer's name
  std::string train_transform;    // text of the data layers' fields
  std::string test_transform;
  int64_t train_side = 0;  // pixels of a training's crop
  int64_t test_side = 0;
  int64_t channels = 0;  // of its pictures
  // Whether strides at its start were taken out, as the pictures are much smaller than those of its training: it takes
  // them at `train_side` pixels, its transforms are left to the task, and `colors` are the fields that bring their
  // values to what it knows.
  bool is_finer = false;
  std::string colors;
};

// The net and weights that --from names: a run, RUN@WHICH, a file of a run's checkpoints, or a model's folder (or a
// model of the zoo by its name) with weights beside its net. Errors: kNoInput where there are none.
TestSource FindStartNet(const std::string& word, const std::filesystem::path& runs);

// `small_side`: pixels of a side of the pictures, where they are small. Errors: kConfig for a net that is no classifier
// of pictures, or that takes them by several data layers.
StartNet MakeStart(const TestSource& source, const std::string& word, const std::string& name, int64_t classes,
                   std::optional<int64_t> small_side);

}  // namespace moka
