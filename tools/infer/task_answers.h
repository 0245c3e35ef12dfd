// A task's answer to one picture or text, apart from where it came from and how it is shown.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

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

enum class AskedKind : uint8_t { kPicture, kText };

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
};

}  // namespace moka
