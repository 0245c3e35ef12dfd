// Where a task of inference writes what it makes of each input.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace moka {

// Names for files of results, none twice in a run of the program: inputs of one name from two folders get "-2" and so
// on.
class OutFolder {
 public:
  // Makes the folder. Errors: kCantCreate.
  explicit OutFolder(std::filesystem::path folder);

  // FOLDER/STEM of an input, to which the task adds what it is ("_boxes.png").
  std::string NameFor(const std::filesystem::path& input);

 private:
  std::filesystem::path folder_;
  std::set<std::string> taken_;
};

}  // namespace moka
