// Clips, that is some frames of videos that lie as numbered pictures in a folder each, in the forks' dialects:
//   kSegments  temporal segment networks: lines "folder frames label"; new_length frames of each of num_segments parts,
//              laid along the channels; optical flow has two pictures a frame
//   kVolume    video-caffe, C3D, 3D-STN: lines "folder first_frame label"; new_length frames on an axis of their own;
//              Caffe-3D's VideoDataSeg: with a folder of label pictures in place of the label
//   kItems     Caffe_action: lines "folder frames label"; each segment is an item of the batch
#pragma once

#include <string>
#include <vector>

#include "data/pipeline/frame_stack.h"

namespace moka {

struct ClipOptions : FrameOptions {
  std::filesystem::path list;
  uint64_t seed = 0;

  enum class Dialect { kSegments, kVolume, kItems } dialect = Dialect::kSegments;
  // A clip's first frame: the list's number, or (jitter) drawn in TRAIN from those that fit the list's number of
  // frames.
  bool jitter = false;
  bool is_flow = false;  // pictures x and y of each frame
  int64_t segments = 1;
  int64_t frames = 1;          // of a segment, or of the clip
  int64_t step = 1;            // every step-th frame
  std::string pattern;         // of a picture's name: %c for x and y of the flow, %04d for the frame
  std::string label_pattern;   // kVolume: of a label picture's name; empty: the label is a number
  bool channel_first = false;  // the channels of a segment in the order colour, frame
};

class ClipMaker final : public SampleMaker {
 public:
  // Reads the list. Errors: kNoInput; kBadData at the list's line; kConfig for a pattern that names no frame.
  explicit ClipMaker(ClipOptions options);
  int64_t record_count() const override { return static_cast<int64_t>(clips_.size()); }
  std::string NameOf(int64_t record) const override;
  Shape DataShape(int64_t record, SampleScratch& scratch) const override;
  Shape DataTop(int64_t batch_size, const Shape& sample) const override;
  int64_t RowsOf(const Shape& sample) const override;
  std::vector<Shape> LabelShapes(int64_t batch_size, const Shape& sample) const override;
  void Make(int64_t record, const SampleId& id, int64_t item, const Shape& shape, SampleScratch& scratch,
            std::span<float> data, std::span<float> label) const override;

 private:
  // Frames before the first of each segment, or before the first of the clip.
  std::vector<int64_t> Offsets(const ListedClip& clip, RandomStream& random) const;
  std::vector<int64_t> ItemOffsets(int64_t frames, RandomStream& random) const;
  CropSize Load(const ListedClip& clip, const std::vector<int64_t>& offsets, SampleScratch& scratch) const;
  void MakeLabels(const ListedClip& clip, const std::vector<int64_t>& offsets, const Shape& shape,
                  SampleScratch& scratch, std::span<float> label) const;
  int64_t planes_of_frame() const { return (options_.is_color ? 3 : 1) * (options_.is_flow ? 2 : 1); }
  Shape ShapeOf(const CropSize& size) const;

  ClipOptions options_;
  std::vector<ListedClip> clips_;
};

// Places that are `count` equal steps from first to last, both taken; the middle for one.
std::vector<int64_t> EvenPlaces(int64_t first, int64_t last, int64_t count);

}  // namespace moka
