// A task's answer to one picture or text, apart from where it came from and how it is shown.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/tensor.h"
#include "tools/infer/picture_net.h"

namespace moka {

using PictureJson = nlohmann::ordered_json;

// A picture or a text, and how its answer calls it.
struct AskedContent {
  std::string name;        // of a file
  std::string_view bytes;  // of the file
  bool draws = false;      // the answer is to be drawn, too
};

struct TaskAnswer {
  PictureJson json;                 // as `moka infer --json` prints it, but for the files that it writes
  int indent = 2;                   // with which it prints it
  std::optional<Image> drawn = {};  // where it was asked for, of tasks that draw
};

// Copies of some of a net's outputs for one picture, in the order in which they are wanted.
using NetOutputs = std::vector<OwnedTensor>;

class PictureAnswers;

enum class AskedKind : uint8_t { kPicture, kText };

// How a task's answers are shown: by `moka infer`, and by who has them from elsewhere (moka client).
struct AnswerForm {
  AskedKind asked = AskedKind::kPicture;
  // Prints one, an element of the list that `moka infer --json` prints, as it does without --json. Errors: those of
  // nlohmann's for an element of another form.
  void (*print)(const PictureJson& answer) = nullptr;
  // Says what several answers tell of each other, which none of them can alone; null: nothing.
  void (*relate)(PictureJson& list) = nullptr;
  std::string list = {};              // key of the list in the JSON; empty: the list is all of it
  std::string between = {};           // printed between two
  std::string drawn_ending = {};      // of a drawing's name behind its input's ("_boxes.png"); empty: nothing is drawn
  std::string drawn_key = "picture";  // under which an answer names its drawing
  int indent = 2;                     // of the JSON
};

// A net that was made to answer. One thread.
class TaskAnswers {
 public:
  TaskAnswers() = default;
  TaskAnswers(const TaskAnswers&) = delete;
  TaskAnswers& operator=(const TaskAnswers&) = delete;
  virtual ~TaskAnswers() = default;

  virtual AskedKind kind() const = 0;
  virtual bool draws() const { return false; }
  // Errors: kBadData for what is no picture or text of the kind.
  virtual TaskAnswer Answer(const AskedContent& asked) = 0;
  // Its net for one picture; null where texts go in.
  virtual PictureNet* net() { return nullptr; }
  // Null where an answer takes more than one run of the net over one picture.
  virtual PictureAnswers* of_pictures() { return nullptr; }
};

// Answers of which each follows from one run of the net over one picture.
class PictureAnswers : public TaskAnswers {
 public:
  PictureAnswers(const InferSource& source, const SharedWeights& weights)
      : source_(source), net_(source, 1, {}, weights) {}

  AskedKind kind() const override { return AskedKind::kPicture; }
  PictureNet* net() override { return &net_; }
  PictureAnswers* of_pictures() override { return this; }
  TaskAnswer Answer(const AskedContent& asked) override;

  // Runs the net over a picture and returns what AnswerOf wants of it. Errors: those of DeployedNet::Run.
  NetOutputs Run(const PreparedPicture& prepared);
  // Any thread.
  virtual TaskAnswer AnswerOf(const AskedContent& asked, const PreparedPicture& prepared,
                              const NetOutputs& outputs) const = 0;

 protected:
  const InferSource& source() const { return source_; }
  PictureNet& own_net() { return net_; }
  // The names of the outputs that AnswerOf wants.
  virtual std::vector<std::string> Wanted() const = 0;

 private:
  const InferSource& source_;
  PictureNet net_;
};

}  // namespace moka
