// Pictures of clips: read into planes of bytes, then cut, mirrored and written as floats together.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/pipeline/open_layers.h"
#include "data/pipeline/sample_maker.h"
#include "data/transform/pixel_mean.h"

namespace moka {

// In a sample's stream of random numbers, after the draws of all frames.
inline constexpr uint64_t kFrameMirrorPosition = uint64_t{1} << 20U;

struct FrameOptions {
  std::filesystem::path base;  // where relative paths start
  std::string prefix;          // root_folder, put before each path as text
  bool is_color = true;
  bool refuses_deep = false;  // an error for PNGs of 16 bits, of which only 8 are read
  int64_t height = 0;         // 0: as it is
  int64_t width = 0;

  Phase phase = TRAIN;
  int64_t crop_size = 0;
  bool mirror = false;
  int64_t turned = 0;     // of that many planes the first is x of a flow, whose sign turns with a mirror; 0: none
  float flow_bound = 0;   // pixels 0 and 255 stand for a flow of -flow_bound and flow_bound; 0: for themselves
  bool fix_crop = false;  // TRAIN: crops at corners and centre only
  bool more_fix_crop = false;
  bool whole_corners = false;  // the corners are those of the picture, up to a pixel, not up to three
  bool multi_scale = false;    // TRAIN: crops of several sizes and shapes, resized
  std::vector<float> scale_ratios;
  int max_distort = 1;
  PixelMean mean;
  float scale = 1;
};

// Sets corners and scales of TRAIN from transform_param, and which planes turn. Errors: kConfig at a field.
void SetCornersAndScales(const LayerParameter& layer, const TransformationParameter& transform, FrameOptions& frames);

// The fields that layers of clips have in common. Errors: those of the mean.
template <class Parameter>
void SetFrameOptions(const Parameter& param, const TransformationParameter& transform, const PipelineOptions& options,
                     FrameOptions& frames) {
  frames.base = options.base_folder;
  frames.prefix = param.root_folder();
  frames.phase = options.phase;
  frames.height = param.new_height();
  frames.width = param.new_width();
  frames.crop_size = transform.crop_size();
  frames.mirror = transform.mirror();
  frames.mean = ReadPixelMean(transform, options.base_folder);
  frames.scale = transform.scale();
}

// A line "folder number label" or "folder number folder_of_labels" of a list of clips.
struct ListedClip {
  std::string folder;
  int64_t number = 0;  // of frames, or the first frame
  int64_t label = 0;
  std::string label_folder;
  int line = 0;
};
enum class ClipLabel { kNumber, kFolder };
// A list's lines. `number`: what its second word is called where a line has not three; `label`: what the third word is.
// Errors: kNoInput; kBadData at file:line.
std::vector<ListedClip> ReadClipList(const std::filesystem::path& list, std::string_view number, ClipLabel label);

// A picture's name for a frame from a pattern with "%d", "%4d" or "%04d" and, for optical flow, "%c", which is the
// axis. Errors: kConfig for another pattern, so that a pattern is no program.
std::string FrameName(const std::string& pattern, int64_t frame, char axis, bool is_flow);

// Reads a picture into scratch.pictures.image, resized. Errors: kNoInput and kBadData, naming it.
void ReadFrame(const FrameOptions& options, const std::string& name, SampleScratch& scratch);

// How planes lie: by segment, then by frame and colour, or by colour and frame.
struct StackLayout {
  int64_t segments = 1;
  int64_t frames = 1;
  int64_t pictures = 1;  // of a frame: 2 for x and y of a flow, each of one plane a colour
  bool by_channel = false;
};
using FrameNamer = std::function<std::string(int64_t segment, int64_t frame, int64_t picture)>;
// All pictures' planes into scratch.pictures.planes; returns their size. Errors: those of the pictures; kBadData when
// they differ in size or are too many.
CropSize LoadFrames(const FrameOptions& options, const StackLayout& layout, const FrameNamer& name,
                    SampleScratch& scratch);

// The part of the pictures that is taken, which is drawn in TRAIN. Errors: kBadData when no crop fits.
struct FrameCut {
  ImageWindow window;
  bool mirror = false;
};
FrameCut CutFrames(const FrameOptions& options, const CropSize& size, bool mirror, RandomStream& random);

// Height and width of what is written.
inline CropSize WrittenSize(const FrameOptions& options, const CropSize& size) {
  return options.crop_size > 0 ? CropSize{options.crop_size, options.crop_size} : size;
}

// Writes the loaded planes as `shape`, [planes,H,W] or [C,frames,H,W]. Factors, one a plane in turn, multiply pixels,
// which do not get larger than 255. Errors: kBadData for a mean that does not fit.
void WriteFrames(const FrameOptions& options, const CropSize& size, const FrameCut& cut, const Shape& shape,
                 std::span<const float> factors, SampleScratch& scratch, std::span<float> out);

}  // namespace moka
