// A check of sets of pictures before anything is trained on them: what an import would refuse, what it would take
// otherwise than was meant, how often each class is there, and which pictures are there twice, in one source or in
// several. Each picture is decoded once; memory is bounded but for some 200 bytes a picture.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/check/findings.h"
#include "data/check/source_look.h"

namespace moka {

struct CheckOptions {
  std::filesystem::path classes = {};  // as ImportOptions has it
  // Files that an import with --skip-bad leaves out are warnings.
  bool skips_bad = false;
  int64_t workers = 0;  // threads; 0: ThreadCount()
  // Whether small copies of the pictures that findings show are made, by a second look at these alone.
  bool draws_thumbnails = false;
  // As ImportOptions has it.
  std::function<std::vector<std::filesystem::path>(const std::filesystem::path& video,
                                                   const std::filesystem::path& folder)>
      video_frames = {};
  // Told of each source, by its place; total 0: not known.
  std::function<void(size_t source, int64_t done, int64_t total)> progress = {};
  std::function<bool()> wants_stop = {};
};

struct CheckReport {
  std::vector<std::unique_ptr<SourceLook>> looks;  // as they were named
  std::vector<Finding> findings;                   // errors first
  std::map<PictureRef, std::string> thumbnails;    // JPEG files
  int exit_code = 0;                               // 0: training can start

  int64_t Count(Severity severity) const;
};

// Looks at each source (VisitSource) and at all together: in the first are the pictures of the training, if there are
// several. A source that cannot be looked at as a whole is a finding. Errors: kUsage, kInterrupted.
CheckReport CheckData(const std::vector<std::string>& sources, const CheckOptions& options);

// How many pictures and examples of a finding a page shows, and a text names.
inline constexpr size_t kExamplesShown = 12;
inline constexpr size_t kPicturesShown = 8;

// All that was found. Bytes of names that are no UTF-8 stand as U+FFFD.
std::string CheckJson(const CheckReport& report);
// One page of HTML that needs no other file and runs no script.
std::string CheckPage(const CheckReport& report);

}  // namespace moka
