// The part that the tasks of pictures share: which pictures are taken, how several run at once, and how results are
// reported.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/image/image.h"
#include "tools/cli/command_line.h"
#include "tools/infer/picture_net.h"
#include "tools/infer/task_answers.h"

namespace moka {

// Errors: kUsage for no inputs, unless the command only looks inside the program; those of PicturesOf.
std::vector<std::filesystem::path> PicturesToInfer(const std::vector<std::string>& inputs, const Arguments& arguments);

// --batch, or as many as there are pictures, from 1 to 16.
int64_t PicturesARun(const std::vector<std::filesystem::path>& files, const Arguments& arguments);

// The files that were read, and the exit code: 0, or that of the first that could not be.
struct FilesSeen {
  int code = 0;
  std::vector<std::filesystem::path> files{};
};

// Does `work` of each file. Of several, one that cannot be read is reported and left out, the others go on. Errors:
// those of `work` for a single file, and any but kBadData and kNoInput.
FilesSeen ForEachFile(const std::vector<std::filesystem::path>& files,
                      const std::function<void(const std::filesystem::path& file)>& work);

// Runs the net over the pictures, as many at once as it takes, and calls `seen` for each in order: it stands in that
// slot of the outputs. Otherwise as ForEachFile; errors of `seen` are not the picture's.
using SeenPicture = std::function<void(const std::filesystem::path& file, const Image& picture, int64_t slot)>;
FilesSeen ForEachPicture(PictureNet& net, const std::vector<std::filesystem::path>& files, const SeenPicture& seen);

// Says which of several outputs a task uses.
void TellOutput(const PictureNet& net, const std::string& used);
// Errors: kConfig for an output of an ArgMax layer, whose values are no score of each class.
void RefuseIndices(const PictureNet& net, const std::string& used);
// Warns of names of another count than the classes of an output.
void CheckNames(const InferSource& source, const std::string& output, int64_t classes);

// From the first picture to the last: the trace, the time and, with --json, one array of all.
class PictureReport {
 public:
  explicit PictureReport(const Arguments& arguments);

  bool as_json() const { return as_json_; }
  void Add(PictureJson picture) { pictures_.push_back(std::move(picture)); }
  // Ends the trace and logs the time of so many pictures; with --json prints what was added, indented by `indent`
  // spaces a level, or on one line for -1.
  void Finish(size_t pictures, int indent = 2) const;

 private:
  const Arguments& arguments_;
  bool as_json_;
  int64_t begin_us_;
  PictureJson pictures_ = PictureJson::array();
};

}  // namespace moka
