// What the tasks of pictures share: which pictures, runs of several at once, and what is said of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/image.h"
#include "tools/command_line.h"
#include "tools/infer/picture_net.h"

namespace moka {

using PictureJson = nlohmann::ordered_json;

// Errors: kUsage for no inputs, unless the command only looks inside the program; those of PicturesOf.
std::vector<std::filesystem::path> PicturesToInfer(const std::vector<std::string>& inputs, const Arguments& arguments);

// --batch, or as many as there are pictures, from 1 to 16.
int64_t PicturesARun(const std::vector<std::filesystem::path>& files, const Arguments& arguments);

// Does `work` of each file. Of several, one that cannot be read is reported and left out, the others go on; the files
// that are left go into `read`. Returns the exit code: 0, or that of the first error. Errors: those of `work` for a
// single file, and any but kBadData and kNoInput.
int ForEachFile(const std::vector<std::filesystem::path>& files,
                const std::function<void(const std::filesystem::path& file)>& work,
                std::vector<std::filesystem::path>& read);

// Runs the net over the pictures, as many at once as it takes, and calls `seen` for each in order: it stands in that
// slot of the outputs. Otherwise as ForEachFile.
using SeenPicture = std::function<void(const std::filesystem::path& file, const Image& picture, int64_t slot)>;
struct PicturesSeen {
  int code = 0;  // as ForEachFile's
  size_t pictures = 0;
};
PicturesSeen ForEachPicture(PictureNet& net, const std::vector<std::filesystem::path>& files, const SeenPicture& seen);

// Says which of several outputs a task uses.
void TellOutput(const PictureNet& net, const std::string& used);
// Warns of names of another count than the classes of an output.
void CheckNames(const InferSource& source, const std::string& output, int64_t classes);

// From the first picture to the last: the trace, the time and, with --json, one array of all.
class PictureReport {
 public:
  explicit PictureReport(const Arguments& arguments);

  bool as_json() const { return as_json_; }
  void Add(PictureJson picture) { pictures_.push_back(std::move(picture)); }
  // With --json: prints what was added, by `indent` spaces a level, or on one line for -1.
  void Finish(size_t pictures, int indent = 2) const;

 private:
  const Arguments& arguments_;
  bool as_json_;
  int64_t begin_us_;
  PictureJson pictures_ = PictureJson::array();
};

}  // namespace moka
