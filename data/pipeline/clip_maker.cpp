// Each fork's rule for the frames of a clip is a few lines here; reading, cutting and writing are
// data/pipeline/frame_stack.h.
#include "data/pipeline/clip_maker.h"

#include <algorithm>

#include "core/error.h"
#include "core/size.h"
#include "core/text.h"

namespace moka {
std::vector<int64_t> EvenPlaces(int64_t first, int64_t last, int64_t count) {
  if (count == 1) return {(first + last) / 2};
  const float step = static_cast<float>(last - first) / static_cast<float>(count - 1);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < count; ++i) {
    const float place = static_cast<float>(first) + step * static_cast<float>(i);
    places.push_back(std::min(static_cast<int64_t>(place), last));  // floats of large numbers are rounded
  }
  return places;
}

ClipMaker::ClipMaker(ClipOptions options) : options_(std::move(options)) {
  FrameName(options_.pattern, 1, 'x', options_.is_flow);  // a pattern that names no frame is told now
  const bool counts = options_.jitter || options_.dialect != ClipOptions::Dialect::kVolume;
  clips_ = ReadClipList(options_.list, counts ? "frames" : "first_frame",
                        options_.label_pattern.empty() ? ClipLabel::kNumber : ClipLabel::kFolder);
}

std::string ClipMaker::NameOf(int64_t record) const {
  const ListedClip& clip = clips_[static_cast<size_t>(record)];
  return StrCat(options_.list.string(), ":", clip.line, ": clip \"", Printable(clip.folder), "\"");
}

// Caffe_action: in TRAIN the segments begin at equal distances from a drawn place, in TEST at those from the first
// frame to the last that begins a segment.
std::vector<int64_t> ClipMaker::ItemOffsets(int64_t frames, RandomStream& random) const {
  const int64_t starts = frames - options_.frames + 1;
  const int64_t segments = options_.segments;
  if (starts <= 1) return std::vector<int64_t>(static_cast<size_t>(segments), 0);
  if (options_.phase != TRAIN || segments > starts) return EvenPlaces(0, starts - 1, segments);
  const float window = static_cast<float>(starts) / static_cast<float>(segments);
  const auto first = static_cast<float>(random.Below(static_cast<uint64_t>(window)));
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < segments; ++i) {
    offsets.push_back(static_cast<int64_t>(first + window * static_cast<float>(i) + 0.5F));
  }
  return offsets;
}

std::vector<int64_t> ClipMaker::Offsets(const ListedClip& clip, RandomStream& random) const {
  const auto below = [&](int64_t bound) { return static_cast<int64_t>(random.Below(static_cast<uint64_t>(bound))); };
  if (options_.dialect == ClipOptions::Dialect::kItems) {
    if (clip.number < 1) throw Error(ErrorKind::kBadData, StrCat("the video has ", clip.number, " frames"));
    return ItemOffsets(clip.number, random);
  }
  if (options_.dialect == ClipOptions::Dialect::kVolume) {
    if (!options_.jitter) return {clip.number - 1};
    const int64_t free = clip.number - options_.frames * options_.step;
    if (free < 0) {
      throw Error(ErrorKind::kBadData,
                  StrCat("the video has ", clip.number, " frames, a clip needs ", options_.frames * options_.step));
    }
    return {options_.phase == TRAIN ? below(free + 1) : 0};
  }
  const int64_t part = clip.number / options_.segments;
  const int64_t free = part - options_.frames;
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < options_.segments; ++i) {
    const int64_t within = free < 0 ? 0 : options_.phase == TRAIN ? below(free + 1) : (free + 1) / 2;
    offsets.push_back(free < 0 ? 0 : within + i * part);
  }
  return offsets;
}

CropSize ClipMaker::Load(const ListedClip& clip, const std::vector<int64_t>& offsets, SampleScratch& scratch) const {
  const bool is_volume = options_.dialect == ClipOptions::Dialect::kVolume;
  const bool is_items = options_.dialect == ClipOptions::Dialect::kItems;
  // A volume's `frames` are those it has; a segment's are those it spans.
  const StackLayout layout{.segments = static_cast<int64_t>(offsets.size()),
                           .frames = is_volume ? options_.frames : options_.frames / options_.step,
                           .pictures = options_.is_flow ? 2 : 1,
                           .by_channel = is_volume || options_.channel_first};
  const auto name = [&](int64_t segment, int64_t f, int64_t picture) {
    const int64_t after = offsets[static_cast<size_t>(segment)] + f * options_.step;
    // Caffe_action counts frames from 0, and a short video begins again.
    const int64_t frame = is_items ? after % clip.number : after + 1;
    return StrCat(options_.prefix, clip.folder, "/",
                  FrameName(options_.pattern, frame, picture == 0 ? 'x' : 'y', options_.is_flow));
  };
  return LoadFrames(options_, layout, name, scratch);
}

// Returns the shape of a sample: [C,frames,H,W] or [C,H,W]; with kItems [segments,C,H,W].
Shape ClipMaker::ShapeOf(const CropSize& size) const {
  const CropSize out = WrittenSize(options_, size);
  if (options_.dialect == ClipOptions::Dialect::kVolume) {
    return {planes_of_frame(), options_.frames, out.height, out.width};
  }
  const int64_t planes = (Size(options_.frames / options_.step) * planes_of_frame()).value();
  if (options_.dialect == ClipOptions::Dialect::kItems) return {options_.segments, planes, out.height, out.width};
  return {(Size(options_.segments) * planes).value(), out.height, out.width};
}

Shape ClipMaker::DataShape(int64_t record, SampleScratch& scratch) const {
  const ListedClip& clip = clips_[static_cast<size_t>(record)];
  RandomStream random(options_.seed, 0);
  return ShapeOf(Load(clip, Offsets(clip, random), scratch));
}

Shape ClipMaker::DataTop(int64_t batch_size, const Shape& sample) const {
  if (options_.dialect != ClipOptions::Dialect::kItems) return SampleMaker::DataTop(batch_size, sample);
  return sample.With(0, (Size(batch_size) * sample[0]).value());
}

int64_t ClipMaker::RowsOf(const Shape& sample) const {
  return options_.dialect == ClipOptions::Dialect::kItems ? sample[0] : 1;
}

std::vector<Shape> ClipMaker::LabelShapes(int64_t batch_size, const Shape& sample) const {
  if (options_.dialect == ClipOptions::Dialect::kItems) return {{batch_size, 1, 1, 1}};
  if (!options_.label_pattern.empty()) return {sample.With(0, 1).Inserted(0, batch_size)};
  return {{batch_size}};
}

void ClipMaker::MakeLabels(const ListedClip& clip, const std::vector<int64_t>& offsets, const Shape& shape,
                           SampleScratch& scratch, std::span<float> label) const {
  if (options_.label_pattern.empty()) {
    label[0] = static_cast<float>(clip.label);
    return;
  }
  const auto name = [&](int64_t /*segment*/, int64_t f, int64_t /*picture*/) {
    return StrCat(options_.prefix, clip.label_folder, "/",
                  FrameName(options_.label_pattern, offsets[0] + 1 + f * options_.step, 'x', false));
  };
  const CropSize size = LoadFrames(options_, {.frames = options_.frames, .by_channel = true}, name, scratch);
  const Shape whole = shape.With(0, 1);
  if (size.height != whole[2] || size.width != whole[3]) {
    throw Error(ErrorKind::kBadData, StrCat("the label pictures are ", size.height, "x", size.width,
                                            " (height x width), the pictures ", whole[2], "x", whole[3]));
  }
  WriteFrames(options_, size, {.window = {0, 0, size.width, size.height}}, whole, {}, scratch, label);
}

void ClipMaker::Make(int64_t record, const SampleId& id, int64_t /*item*/, const Shape& shape, SampleScratch& scratch,
                     std::span<float> data, std::span<float> label) const {
  const ListedClip& clip = clips_[static_cast<size_t>(record)];
  RandomStream random(options_.seed, StreamOf(id));
  const std::vector<int64_t> offsets = Offsets(clip, random);
  const CropSize size = Load(clip, offsets, scratch);
  if (ShapeOf(size) != shape) {
    throw Error(ErrorKind::kBadData, {},
                StrCat("its sample is ", ShapeOf(size).ToString(), ", the first was ", shape.ToString()),
                "all samples of a layer have one shape: set new_height and new_width, or crop_size");
  }
  const bool is_mirrored = options_.mirror && IsMirrored(options_.seed, id, kFrameMirrorPosition);
  const FrameCut cut = CutFrames(options_, size, is_mirrored, random);
  // The items of a video have one cut: for it they are the planes of one picture.
  const Shape written =
      options_.dialect == ClipOptions::Dialect::kItems ? Shape{shape[0] * shape[1], shape[2], shape[3]} : shape;
  WriteFrames(options_, size, cut, written, {}, scratch, data);
  MakeLabels(clip, offsets, shape, scratch, label);
}

}  // namespace moka
