// ImageVideoData: video-caffe's clips with one picture of each, for nets of two branches. Every item of a batch goes
// through a video clip by clip and then takes the next video of the list that no item has taken.
#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "data/data_layers.h"
#include "data/pipeline/frame_stack.h"
#include "proto/text/places.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPicture = 20;  // of a clip, from 0
constexpr const char* kPattern = "image_%04d.jpg";

struct ImageVideoOptions : FrameOptions {
  fs::path list;
  uint64_t seed = 0;
  uint64_t order_seed = 0;
  bool shuffle = false;
  int64_t skip = 0;   // videos at the list's beginning
  int64_t items = 1;  // of a batch, all ranks together
  int64_t frames = 1;
  int64_t step = 1;
};

class ImageVideoMaker final : public SampleMaker {
 public:
  explicit ImageVideoMaker(ImageVideoOptions options) : options_(std::move(options)) {
    videos_ = ReadClipList(options_.list, "frames", ClipLabel::kNumber);
    std::vector<int64_t> clips;
    for (const ListedClip& video : videos_) clips.push_back(CountClips(video));
    MakeOrder(clips);
  }

  int64_t record_count() const override { return static_cast<int64_t>(order_.size()); }
  std::string NameOf(int64_t record) const override {
    const Clip& clip = order_[static_cast<size_t>(record)];
    const ListedClip& video = videos_[static_cast<size_t>(clip.video)];
    return StrCat(options_.list.string(), ":", video.line, ": clip ", clip.number, " of \"", Printable(video.folder),
                  "\"");
  }

  Shape DataShape(int64_t record, SampleScratch& scratch) const override {
    const CropSize size = WrittenSize(options_, Load(order_[static_cast<size_t>(record)], 0, options_.frames, scratch));
    return {options_.is_color ? 3 : 1, options_.frames, size.height, size.width};
  }

  std::vector<Shape> LabelShapes(int64_t batch_size, const Shape& sample) const override {
    return {sample.Erased(1).Inserted(0, batch_size), {batch_size}};
  }

  // The clip and its picture are cut and mirrored apart, as in the fork.
  void Make(int64_t record, const SampleId& id, int64_t /*item*/, const Shape& shape, SampleScratch& scratch,
            std::span<float> data, std::span<float> label) const override {
    const Clip& clip = order_[static_cast<size_t>(record)];
    RandomStream random(options_.seed, StreamOf(id));
    const auto write = [&](int64_t first, int64_t frames, const Shape& written, uint64_t coin, std::span<float> out) {
      const CropSize size = Load(clip, first, frames, scratch);
      const CropSize now = WrittenSize(options_, size);
      if (now.height != shape[2] || now.width != shape[3]) {
        throw Error(ErrorKind::kBadData, {},
                    StrCat("its pictures are ", now.height, "x", now.width, " (height x width), the first were ",
                           shape[2], "x", shape[3]),
                    "all samples of a layer have one shape: set new_height and new_width, or crop_size");
      }
      const bool is_mirrored = options_.mirror && IsMirrored(options_.seed, id, kFrameMirrorPosition + coin);
      WriteFrames(options_, size, CutFrames(options_, size, is_mirrored, random), written, {}, scratch, out);
    };
    const Shape picture = shape.Erased(1);
    write(0, options_.frames, shape, 0, data);
    write(kPicture, 1, picture, 1, label.first(static_cast<size_t>(picture.Count())));
    label.back() = static_cast<float>(videos_[static_cast<size_t>(clip.video)].label);
  }

 private:
  struct Clip {
    int64_t video = 0;
    int64_t number = 0;
  };

  int64_t CountClips(const ListedClip& video) const {
    const std::string folder = StrCat(options_.prefix, video.folder);
    std::error_code fault;
    int64_t files = 0;
    for (fs::directory_iterator at(options_.base / folder, fault), end; !fault && at != end; at.increment(fault)) {
      ++files;
    }
    const SourcePlace place{.file = options_.list.string(), .line = video.line};
    if (fault) throw Error(ErrorKind::kNoInput, place, StrCat("\"", Printable(folder), "\": ", fault.message()));
    if (files >= options_.frames) return files / options_.frames;
    throw Error(ErrorKind::kBadData, place,
                StrCat("\"", Printable(folder), "\" has ", files, " pictures, a clip needs ", options_.frames));
  }

  // The clips of as many batches as show every clip once or nearly so; then they begin again.
  void MakeOrder(const std::vector<int64_t>& clips) {
    const auto count = static_cast<int64_t>(videos_.size());
    if (count < options_.items) {
      throw Error(ErrorKind::kBadData, StrCat(options_.list.string(), ": ", count, " videos, and each of the ",
                                              options_.items, " items of a batch needs one of its own"));
    }
    const Permutation shuffled(static_cast<uint64_t>(count), options_.order_seed, 0);
    const auto video_at = [&](int64_t i) {
      const int64_t at = (i + options_.skip) % count;
      return options_.shuffle ? static_cast<int64_t>(shuffled(static_cast<uint64_t>(at))) : at;
    };
    int64_t all = 0;
    for (const int64_t of_video : clips) all += of_video;
    std::vector<Clip> items;
    for (int64_t i = 0; i < options_.items; ++i) items.push_back({video_at(i), 0});
    int64_t next = options_.items;
    for (int64_t batch = 0; batch < (all + options_.items - 1) / options_.items; ++batch) {
      for (Clip& item : items) {
        order_.push_back(item);
        if (++item.number < clips[static_cast<size_t>(item.video)]) continue;
        item = {video_at(next++), 0};
      }
    }
  }

  CropSize Load(const Clip& clip, int64_t first, int64_t frames, SampleScratch& scratch) const {
    const auto name = [&](int64_t /*segment*/, int64_t f, int64_t /*picture*/) {
      const int64_t frame = clip.number * options_.frames + 1 + (first + f) * options_.step;
      return StrCat(options_.prefix, videos_[static_cast<size_t>(clip.video)].folder, "/",
                    FrameName(kPattern, frame, 'x', false));
    };
    return LoadFrames(options_, {.frames = frames, .by_channel = true}, name, scratch);
  }

  ImageVideoOptions options_;
  std::vector<ListedClip> videos_;
  std::vector<Clip> order_;
};

std::unique_ptr<Pipeline> OpenImageVideoData(const LayerParameter& layer, const PipelineOptions& options) {
  constexpr std::string_view kFields[] = {"scale", "mirror", "crop_size", "mean_value"};
  constexpr int64_t kMostFrames = 1 << 16;
  const VideoDataParameter& param = layer.video_data_param();
  const auto refuse = [&](std::string_view field, const std::string& text) {
    throw ErrorAt(layer, StrCat("video_data_param.", field), StrCat("layer \"", layer.name(), "\": ", text));
  };
  CheckTops(layer, 3);
  CheckTransformFields(layer, kFields);
  CheckSource(layer, "video_data_param.source", param.source());
  CheckNewSize(layer, "video_data_param", param.new_height(), param.new_width());
  const int64_t batch = CheckedBatch(layer, "video_data_param.batch_size", param.batch_size());
  if (param.new_length() <= kPicture || param.new_length() > kMostFrames) {
    refuse("new_length", StrCat("new_length is ", param.new_length(), ", expected ", kPicture + 1, "..", kMostFrames,
                                ": frame ", kPicture + 1, " of a clip is the picture"));
  }
  if (param.gap_example() < 1 || param.gap_example() > kMostFrames) refuse("gap_example", "must be 1 or more");
  ImageVideoOptions video;
  SetFrameOptions(param, TransformOf(layer, param), options, video);
  video.is_color = param.is_color();
  video.list = options.base_folder / param.source();
  video.seed = DataSeed(options.seed, "augment");
  const SamplerOptions order = SamplerFor(options, 1, param.shuffle(), param.rand_skip(), batch);
  video.order_seed = order.seed;
  video.skip = order.skip;
  video.shuffle = param.shuffle();
  video.items = options.whole_batches ? batch : batch * options.world;
  video.frames = param.new_length();
  video.step = param.gap_example();
  return OpenListed(layer, options, {.batch = batch, .shuffle = false, .rand_skip = 0},
                    std::make_unique<ImageVideoMaker>(std::move(video)));
}

}  // namespace

DataLayerRow ImageVideoDataRow() { return {.type = "ImageVideoData", .open = OpenImageVideoData}; }

}  // namespace moka
