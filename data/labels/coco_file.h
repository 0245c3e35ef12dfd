// COCO's annotation files: {"images": [..], "categories": [..], "annotations": [..]}, each a list of objects that
// refer to one another by "id". T.-Y. Lin et al., Microsoft COCO: Common Objects in Context, ECCV 2014.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "data/labels/annotation_file.h"
#include "data/labels/run_lengths.h"

namespace moka {

// A key point: pixels, counted from 0, which are places of their centres.
struct CocoPoint {
  double x = 0;
  double y = 0;
  enum class Flag : uint8_t { kNotLabelled = 0, kHidden = 1, kVisible = 2 } flag = Flag::kNotLabelled;
};

struct CocoAnnotation {
  int64_t id = 0;
  int32_t label = 0;  // from 1, in the order of the categories' ids
  PixelBox box;
  bool is_crowd = false;
  // The object's pixels are given by the first of these two that is not empty.
  std::vector<std::vector<double>> polygons = {};
  RunLengths runs = {};
  PictureSize runs_size = {};
  std::vector<CocoPoint> points = {};  // by CocoFile's point_names, or none
};

struct CocoPicture {
  int64_t id = 0;
  std::string file;
  PictureSize size;                          // 0: not stated
  std::vector<CocoAnnotation> objects = {};  // in the file's order
};

struct CocoFile {
  std::vector<CocoPicture> pictures;  // in the file's order
  std::vector<std::string> classes;   // names by label, from 0, which stands for none
  bool has_masks = false;             // any object has pixels
  // The points of the categories that have key points, which all have the same.
  std::vector<std::string> point_names;
  std::vector<std::pair<uint32_t, uint32_t>> skeleton;  // points that are joined, from 0
  uint32_t crc32c = 0;                                  // of the file
};

// `step` is called at each object that is read, and may throw.
// Errors: kNoInput; kBadData naming the file and the object in it.
CocoFile ReadCocoFile(const std::filesystem::path& path, const std::function<void()>& step);

// Whether it has polygons or run lengths: annotation tools leave them out of some objects and not of others.
bool HasOutline(const CocoAnnotation& object);
// The pixels of an object in a picture of that size; its box's where it has no outline. Errors: kBadData.
RunLengths PixelsOf(const CocoAnnotation& object, const PictureSize& size);

}  // namespace moka
