// Annotations of pictures made by a net, in a folder that labelling tools and `moka data import` read back: what a
// person then corrects, the most uncertain pictures first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/image/image.h"
#include "data/labels/annotation_text.h"
#include "tools/cli/command_line.h"
#include "tools/infer/out_folder.h"
#include "tools/infer/source.h"

namespace moka {

// The formats, and what is below the folder besides uncertainty.csv:
// kCoco     images/, instances.json
// kVoc      JPEGImages/, Annotations/, ImageSets/Main/train.txt, classes.txt
// kYolo     images/, labels/, classes.txt, scores.csv
// kFolders  images/CLASS/, unsure/, labels.txt of classified pictures; images/, masks/, classes.txt of segmented ones
enum class AnnotationKind { kCoco, kVoc, kYolo, kFolders };

// --annotate and --score, for the options of tasks.
OptionSpec AnnotateOption();
OptionSpec ScoreOption();
// --annotate KIND; nothing without it. Errors: kUsage for what is no kind, and for a kind that is not among those that
// fit the task's answers.
std::optional<AnnotationKind> AnnotationKindOf(const Arguments& arguments, const InferSource& source,
                                               std::initializer_list<AnnotationKind> fit);

// The folder of one run. Pictures are copied into it, byte by byte, so that it stands by itself; their names lose
// blanks, which lists cannot hold. Lists and uncertainty.csv are written by Finish.
class AnnotationFolder {
 public:
  // In --out (default "annotations"), as OutFolder. `classes`: how many there are, with the one that stands for none;
  // 0: as many as have names, or are met. Errors: kCantCreate.
  AnnotationFolder(AnnotationKind kind, const Arguments& arguments, const InferSource& source, int64_t classes);

  // The next three return the file that says what was found, and throw kCantCreate, kIo and those of reading `file`.
  // Objects without an area of a hundredth of a pixel at each side, which no reader keeps, are left out and told.
  std::string AddObjects(const std::filesystem::path& file, const Image& picture, std::vector<ScoredObject> objects,
                         double uncertainty);
  // A picture of a class, or of none where the net is not sure enough.
  struct FoundClass {
    int64_t label = 0;
    double score = 0;
    bool is_sure = true;
  };
  // Errors: besides, kCantCreate where the picture lies in the folder of another class, by an earlier run.
  std::string AddClass(const std::filesystem::path& file, const FoundClass& found, double uncertainty);
  // `mask`: the classes of the picture's pixels, one channel.
  std::string AddMask(const std::filesystem::path& file, const Image& mask, double uncertainty);

  // Writes the lists, and says how the folder is read back.
  void Finish();

 private:
  struct Row {
    std::string picture;  // below the folder
    std::string file;     // the input
    double uncertainty = 0;
    std::string found = {};  // a class
    double score = 0;
  };
  std::string StemFor(const std::filesystem::path& file);
  std::string CopyPicture(const std::filesystem::path& file, const std::string& stem, const std::string& folder);
  const std::vector<std::string>& NamesTo(int64_t label);
  void WriteUncertainty() const;
  std::string WriteLists() const;
  void Write(const std::string& name, const std::string& text) const;

  AnnotationKind kind_;
  std::filesystem::path folder_;
  OutFolder out_;
  bool has_masks_ = false;
  std::vector<std::string> given_;  // names as the model has them
  std::vector<std::string> names_;  // by label, each once
  CocoWriter coco_;
  std::string list_;    // of VOC
  std::string scores_;  // of YOLO, CSV
  std::vector<Row> rows_;
  int64_t renamed_ = 0;  // pictures
  int64_t areas_ = 0;    // objects without one
};

}  // namespace moka
