// Sequences for recurrent nets: steps of a video, each a stack of its pictures, laid step by step over the videos of a
// batch, with labels and markers of where sequences begin. In the forks' dialects:
//   kClips   Caffe_action's VideoDataRNN: lines "folder frames label"; clips at equal distances
//   kRun     caffe_qi's ImageData for LRCN: lines "name label"; pictures of a folder that follow each other
//   kSpread  RgbVideoData and FlowVideoData: a line "name pictures" a video, then a line "picture label" for each;
//            pictures, or stacks of such that follow each other, spread over the video
#pragma once

#include <string>
#include <vector>

#include "data/pipeline/frame_stack.h"

namespace moka {

struct SequenceOptions : FrameOptions {
  std::filesystem::path list;
  uint64_t seed = 0;
  enum class Dialect { kClips, kRun, kSpread } dialect = Dialect::kRun;
  int64_t steps = 1;
  int64_t segments = 1;  // sequences of a video
  int64_t frames = 1;    // of a stack
  int64_t pictures = 1;  // of a frame

  // kClips
  std::string pattern;  // of a picture's name
  bool is_flow = false;
  int64_t stride = 1;          // frames from step to step
  bool rolls = false;          // sequences go on at the video's start
  int64_t labelled_steps = 1;  // the last ones; others have the label -1
  // kSpread
  bool jitter = false;
  int64_t jitter_range = 20;  // pictures
  bool color_factors = false;
};

class SequenceMaker final : public SampleMaker {
 public:
  // Reads the list. Errors: kNoInput; kBadData at the list's line; kConfig for a pattern that names no frame.
  explicit SequenceMaker(SequenceOptions options);
  int64_t record_count() const override { return static_cast<int64_t>(videos_.size()); }
  std::string NameOf(int64_t record) const override;
  Shape DataShape(int64_t record, SampleScratch& scratch) const override;
  Shape DataTop(int64_t batch_size, const Shape& sample) const override;
  int64_t RowsOf(const Shape& sample) const override { return sample[0]; }
  int64_t StepsOf(size_t /*top*/) const override { return options_.steps; }
  std::vector<Shape> LabelShapes(int64_t batch_size, const Shape& sample) const override;
  void Make(int64_t record, const SampleId& id, int64_t item, const Shape& shape, SampleScratch& scratch,
            std::span<float> data, std::span<float> label) const override;

 private:
  struct Picture {
    std::string name;
    int64_t label = 0;
  };
  struct Video {
    std::string name;
    int64_t number = 0;  // of frames
    int64_t label = 0;
    int line = 0;
    std::vector<Picture> pictures;
  };
  // The files that are read for a sample: by step and segment the names of a stack's pictures, none where a sequence
  // has ended.
  struct Plan {
    std::vector<std::vector<std::string>> stacks;
    std::vector<float> labels;                // of the tops after the first, each by step and segment
    std::vector<std::vector<float>> factors;  // of a stack's planes; one for all, one each or none
  };

  void ReadVideos();
  Plan PlanOf(const Video& video, RandomStream& random) const;
  Plan PlanClips(const Video& video, RandomStream& random) const;
  Plan PlanRun(const Video& video, RandomStream& random) const;
  Plan PlanSpread(const Video& video, RandomStream& random) const;
  CropSize LoadStack(const std::vector<std::string>& names, SampleScratch& scratch) const;

  SequenceOptions options_;
  std::vector<Video> videos_;
};

}  // namespace moka
