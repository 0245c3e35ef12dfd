// Found objects as texts that labelling tools read, and this program's importers (annotation_file.h, coco_file.h):
// VOC's XML, YOLO's lines and COCO's JSON, with the scores of what was found where the format has room for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/labels/annotation_file.h"
#include "data/labels/run_lengths.h"

namespace moka {

struct ScoredObject {
  int32_t label = 0;  // from 1: class 0 stands for no object
  PixelBox box;       // inside the picture
  double score = 0;
  RunLengths runs = {};  // its pixels [height, width]; empty: there is a box alone
};

struct LabelledPicture {
  std::string file;  // its name in the folder of pictures
  PictureSize size;
  int64_t channels = 3;
  std::vector<ScoredObject> objects = {};
};

// An <annotation>, corners to hundredths of a pixel, an element <score> beside each box. `names`: of the classes by
// label. Requires: a name for each object's label.
std::string VocText(const LabelledPicture& picture, const std::vector<std::string>& names);

// A line "class x y width height" an object, six decimals; the class is the label less 1. The format has no score.
std::string YoloText(const LabelledPicture& picture);

// COCO's JSON of several pictures, "score" in each annotation and "segmentation" as run lengths in those with pixels;
// boxes to hundredths of a pixel. A category's id is its label.
class CocoWriter {
 public:
  void Add(const LabelledPicture& picture);
  // Returns the file's text with the categories 1..names.size()-1. Requires: a name for each label.
  std::string Finish(const std::vector<std::string>& names) const;

 private:
  int64_t pictures_ = 0;
  int64_t objects_ = 0;
  std::string images_;  // JSON, without the list's brackets
  std::string annotations_;
};

}  // namespace moka
