// VideoData: clips, that is some frames of videos that lie as numbered pictures in a folder each, in three dialects:
//   kSegments  temporal segment networks: lines "folder frames label"; new_length frames of each of num_segments parts,
//              laid along the channels; optical flow has two pictures a frame
//   kVolume    video-caffe and C3D: lines "folder first_frame label"; new_length frames on an axis of their own
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/layer_fields.h"
#include "data/sample_maker.h"

namespace moka {

struct ClipOptions {
  std::filesystem::path list;
  std::filesystem::path base;  // where relative paths start
  std::string prefix;          // root_folder, put before each path as text
  uint64_t seed = 0;
  Phase phase = TRAIN;

  enum class Dialect { kSegments, kVolume } dialect = Dialect::kSegments;
  // A clip's first frame: the list's number, or (jitter) drawn in TRAIN from those that fit the list's number of
  // frames.
  bool jitter = false;
  int64_t segments = 1;
  int64_t frames = 1;  // of a segment, or of the clip
  int64_t step = 1;    // every step-th frame
  enum class Pictures { kColor, kGrey, kFlow } pictures = Pictures::kColor;
  std::string pattern;         // of a picture's name: %c for x and y of the flow, %04d for the frame
  bool channel_first = false;  // the channels of a segment in the order colour, frame
  int64_t height = 0;          // 0: as it is
  int64_t width = 0;

  int64_t crop_size = 0;
  bool mirror = false;
  bool flow_signs = false;  // a mirrored flow has its x turned
  bool fix_crop = false;    // TRAIN: crops at corners and centre only
  bool more_fix_crop = false;
  bool multi_scale = false;  // TRAIN: crops of several sizes and shapes, resized
  std::vector<float> scale_ratios;
  int max_distort = 1;
  PixelMean mean;
  float scale = 1;
};

class ClipMaker final : public SampleMaker {
 public:
  // Reads the list. Errors: kNoInput; kBadData at the list's line; kConfig for a pattern that names no frame.
  explicit ClipMaker(ClipOptions options);
  int64_t record_count() const override { return static_cast<int64_t>(clips_.size()); }
  std::string NameOf(int64_t record) const override;
  Shape DataShape(int64_t record, SampleScratch& scratch) const override;
  void Make(int64_t record, const SampleId& id, int64_t item, const Shape& shape, SampleScratch& scratch,
            std::span<float> data, std::span<float> label) const override;

 private:
  struct Clip {
    std::string folder;
    int64_t number = 0;  // of frames, or the first frame
    int64_t label = 0;
    int line = 0;
  };
  struct Cut {
    ImageWindow window;
    bool mirror = false;
  };

  std::string FrameName(int64_t frame, char axis) const;
  // Frames before the first of each segment (kSegments), or before the first of the clip.
  std::vector<int64_t> Offsets(const Clip& clip, RandomStream& random) const;
  // Every picture's planes one after the other in the order of the sample's channels; returns height and width.
  CropSize Load(const Clip& clip, const std::vector<int64_t>& offsets, SampleScratch& scratch) const;
  void ReadFrame(const Clip& clip, int64_t frame, char axis, SampleScratch& scratch) const;
  Cut CutOf(const CropSize& size, const SampleId& id, RandomStream& random) const;
  void Write(const CropSize& size, const Cut& cut, const Shape& shape, SampleScratch& scratch,
             std::span<float> out) const;
  int64_t planes_of_frame() const {
    return options_.pictures == ClipOptions::Pictures::kColor  ? 3
           : options_.pictures == ClipOptions::Pictures::kGrey ? 1
                                                               : 2;
  }
  Shape ShapeOf(const CropSize& size) const;

  ClipOptions options_;
  std::vector<Clip> clips_;
};

}  // namespace moka
