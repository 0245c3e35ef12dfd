// Plans the names of a sample's pictures first and reads them then, so that a step that a video has no more is known
// before any decoding.
#include "data/pipeline/sequence_maker.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/error.h"
#include "core/size.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/pipeline/clip_maker.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using Dialect = SequenceOptions::Dialect;

// Pictures of a folder in the order of their names.
std::vector<std::string> PicturesIn(const fs::path& base, const std::string& folder) {
  std::error_code fault;
  std::vector<std::string> names;
  for (fs::directory_iterator at(base / folder, fault), end; !fault && at != end; at.increment(fault)) {
    const std::string name = at->path().filename().string();
    if (IsImageName(name) && !name.starts_with('.')) names.push_back(StrCat(folder, "/", name));
  }
  if (fault) throw Error(ErrorKind::kNoInput, StrCat("\"", Printable(folder), "\": ", fault.message()));
  std::ranges::sort(names);
  return names;
}

// A name "a/b/0012_x.jpg" for the picture that many later: "a/b/0015_x.jpg". Errors: kBadData for other names.
std::string LaterPicture(const std::string& name, int64_t later) {
  const size_t slash = name.find_last_of('/');
  const size_t begin = slash == std::string::npos ? 0 : slash + 1;
  size_t end = begin;
  while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
  constexpr size_t kMostDigits = 9;
  if (end == begin || end - begin > kMostDigits) {
    throw Error(ErrorKind::kBadData, StrCat("picture \"", Printable(name), "\" has no frame number of 1..", kMostDigits,
                                            " digits at its name's beginning"));
  }
  const int64_t number = std::stoll(name.substr(begin, end - begin)) + later;
  return StrCat(name.substr(0, begin), FrameName("%04d", number, 'x', false), name.substr(end));
}

}  // namespace

SequenceMaker::SequenceMaker(SequenceOptions options) : options_(std::move(options)) {
  if (options_.dialect == Dialect::kClips) FrameName(options_.pattern, 1, 'x', options_.is_flow);
  ReadVideos();
}

void SequenceMaker::ReadVideos() {
  if (options_.dialect == Dialect::kClips) {
    for (const ListedClip& clip : ReadClipList(options_.list, "frames", ClipLabel::kNumber)) {
      videos_.push_back(
          {.name = clip.folder, .number = clip.number, .label = clip.label, .line = clip.line, .pictures = {}});
    }
    return;
  }
  const auto fail = [&](int line, const std::string& text) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = options_.list.string(), .line = line}, text);
  };
  int64_t missing = 0;  // pictures of the last video
  for (const ListLine& line : ReadListLines(options_.list)) {
    const bool is_picture = missing > 0;
    const bool is_spread = options_.dialect == Dialect::kSpread;
    if (line.words.size() != 2) {
      fail(line.number, StrCat("expected \"",
                               is_picture  ? "picture label"
                               : is_spread ? "video pictures"
                                           : "video label",
                               "\", found ", line.words.size(), " words: \"", Printable(Join(line.words, " ")), "\""));
    }
    const bool is_label = is_picture || !is_spread;
    const int64_t number = is_label ? LabelOf(line.words[1], options_.list, line.number)
                                    : NumberOf(line.words[1], "the number of pictures", options_.list, line.number);
    if (is_picture) {
      videos_.back().pictures.push_back({line.words[0], number});
      --missing;
      continue;
    }
    videos_.push_back({.name = line.words[0], .label = number, .line = line.number, .pictures = {}});
    if (!is_spread) continue;
    if (number < 1 || number % options_.pictures != 0) {
      fail(line.number, StrCat("video \"", Printable(line.words[0]), "\" has ", number, " pictures, expected 1 or more",
                               options_.pictures > 1 ? StrCat(", ", options_.pictures, " a frame") : ""));
    }
    missing = number;
  }
  if (missing > 0) {
    fail(videos_.back().line,
         StrCat("video \"", Printable(videos_.back().name), "\" lacks the lines of its last ", missing, " pictures"));
  }
}

std::string SequenceMaker::NameOf(int64_t record) const {
  const Video& video = videos_[static_cast<size_t>(record)];
  return StrCat(options_.list.string(), ":", video.line, ": video \"", Printable(video.name), "\"");
}

// Starts are drawn in TRAIN and evenly spread in TEST; a sequence ends with the video.
SequenceMaker::Plan SequenceMaker::PlanClips(const Video& video, RandomStream& random) const {
  const int64_t places = video.number - options_.frames + 1;
  const int64_t stride = options_.stride;
  const int64_t segments = options_.segments;
  if (places < stride) {
    throw Error(ErrorKind::kBadData,
                StrCat("the video has ", video.number, " frames, a sequence needs ", options_.frames + stride - 1));
  }
  const int64_t whole = (Size(stride) * (options_.steps - 1) + 1).value();
  std::vector<int64_t> starts;
  if (options_.phase == TRAIN) {
    const int64_t bound = options_.rolls ? places : std::max(stride, places - whole + 1);
    starts.push_back(static_cast<int64_t>(random.Below(static_cast<uint64_t>(bound))));
  } else if (options_.rolls) {
    const float step = static_cast<float>(places) / static_cast<float>(segments);
    for (int64_t i = 0; i < segments; ++i) {  // the fork takes the rest of the segments' number, not of the places'
      starts.push_back(static_cast<int64_t>(step * static_cast<float>(i) + 0.5F) % segments % places);
    }
  } else {
    starts = EvenPlaces(0, std::max(stride - 1, places - whole), segments);
  }
  Plan plan;
  const auto count = static_cast<size_t>(options_.steps * segments);
  plan.stacks.resize(count);
  plan.labels.assign(2 * count, 0.0F);
  std::fill_n(plan.labels.begin(), count, -1.0F);
  for (int64_t s = 0; s < segments; ++s) {
    const int64_t start = starts[static_cast<size_t>(s)];
    const int64_t length =
        options_.rolls ? options_.steps : std::min(options_.steps, (places - start - 1) / stride + 1);
    for (int64_t t = 0; t < length; ++t) {
      const auto at = static_cast<size_t>(t * segments + s);
      const int64_t first = options_.rolls ? (start + stride * t) % places : start + stride * t;
      for (int64_t f = 0; f < options_.frames; ++f) {
        for (const char axis : {'x', 'y'}) {
          if (axis == 'y' && !options_.is_flow) continue;
          plan.stacks[at].push_back(
              StrCat(options_.prefix, video.name, "/", FrameName(options_.pattern, first + f, axis, options_.is_flow)));
        }
      }
      if (options_.steps - t <= options_.labelled_steps) plan.labels[at] = static_cast<float>(video.label);
      plan.labels[count + at] = t == 0 ? static_cast<float>(-length) : 1.0F;
    }
  }
  return plan;
}

// The folder is the name without what stands before its first slash.
SequenceMaker::Plan SequenceMaker::PlanRun(const Video& video, RandomStream& random) const {
  const std::string folder = StrCat(options_.prefix, "/", video.name.substr(video.name.find('/') + 1));
  const std::vector<std::string> names = PicturesIn(options_.base, folder);
  const auto steps = static_cast<size_t>(options_.steps);
  if (names.size() < steps) {
    throw Error(ErrorKind::kBadData,
                StrCat("\"", Printable(folder), "\" has ", names.size(), " pictures, a sequence needs ", steps));
  }
  const size_t first = random.Below(names.size() - steps + 1);
  Plan plan;
  plan.labels.assign(steps, static_cast<float>(video.label));
  plan.labels.resize(2 * steps, 1.0F);
  plan.labels[steps] = 0;
  for (size_t t = 0; t < steps; ++t) plan.stacks.push_back({names[first + t]});
  return plan;
}

SequenceMaker::Plan SequenceMaker::PlanSpread(const Video& video, RandomStream& random) const {
  const auto count = static_cast<int64_t>(video.pictures.size()) / options_.pictures;
  const bool is_one = options_.steps == 1;
  const float gap = is_one ? 0.0F : static_cast<float>(count) / static_cast<float>(options_.steps - 1);
  const int64_t range = std::min(std::max<int64_t>(static_cast<int64_t>(gap / 2), 1), options_.jitter_range);
  const auto factor = [&] { return static_cast<float>(random.Uniform(0.8, 1.2)); };
  const int64_t channels = options_.is_color ? 3 : 1;
  const bool is_stack = options_.frames > 0;
  Plan plan;
  if (options_.color_factors && !is_stack) plan.factors = {{factor(), factor(), factor()}};
  for (int64_t t = 0; t < options_.steps; ++t) {
    auto place = static_cast<int64_t>(static_cast<float>(t) * gap);
    if (options_.jitter) place += static_cast<int64_t>(random.Below(static_cast<uint64_t>(range))) - range / 2;
    place = std::clamp<int64_t>(place, 0, count - 1);
    std::vector<std::string> names;
    for (int64_t f = 0; f < std::max<int64_t>(options_.frames, 1); ++f) {
      for (int64_t p = 0; p < options_.pictures; ++p) {
        const std::string& name = video.pictures[static_cast<size_t>(place * options_.pictures + p)].name;
        names.push_back(options_.prefix + (is_stack ? LaterPicture(name, f) : name));
      }
    }
    if (options_.color_factors && is_stack) {
      plan.factors.emplace_back();
      for (size_t i = 0; i < names.size() * static_cast<size_t>(channels); ++i) plan.factors.back().push_back(factor());
    }
    plan.stacks.push_back(std::move(names));
    // FlowVideoData takes the first picture's label for all.
    plan.labels.push_back(static_cast<float>(video.pictures[static_cast<size_t>(is_stack ? 0 : place)].label));
    plan.labels.push_back(1);
  }
  return plan;
}

SequenceMaker::Plan SequenceMaker::PlanOf(const Video& video, RandomStream& random) const {
  switch (options_.dialect) {
    case Dialect::kClips: return PlanClips(video, random);
    case Dialect::kRun: return PlanRun(video, random);
    default: return PlanSpread(video, random);
  }
}

CropSize SequenceMaker::LoadStack(const std::vector<std::string>& names, SampleScratch& scratch) const {
  const auto name = [&](int64_t /*segment*/, int64_t frame, int64_t picture) {
    return names[static_cast<size_t>(frame * options_.pictures + picture)];
  };
  const int64_t frames = static_cast<int64_t>(names.size()) / options_.pictures;
  return LoadFrames(options_, {.frames = frames, .pictures = options_.pictures}, name, scratch);
}

// [steps * segments, C, H, W].
Shape SequenceMaker::DataShape(int64_t record, SampleScratch& scratch) const {
  RandomStream random(options_.seed, 0);
  const Plan plan = PlanOf(videos_[static_cast<size_t>(record)], random);
  const std::vector<std::string>& first = plan.stacks.front();
  const CropSize size = WrittenSize(options_, LoadStack(first, scratch));
  const int64_t planes = static_cast<int64_t>(first.size()) * (options_.is_color ? 3 : 1);
  return {(Size(options_.steps) * options_.segments).value(), planes, size.height, size.width};
}

Shape SequenceMaker::DataTop(int64_t batch_size, const Shape& sample) const {
  return sample.With(0, (Size(batch_size) * sample[0]).value());
}

std::vector<Shape> SequenceMaker::LabelShapes(int64_t batch_size, const Shape& sample) const {
  const int64_t rows = batch_size * sample[0];
  switch (options_.dialect) {
    case Dialect::kClips:
      return {{options_.steps, rows / options_.steps, 1}, {options_.steps, rows / options_.steps, 1}};
    case Dialect::kRun: return {{rows}, {rows}};
    default: return {{rows, 2, 1, 1}};
  }
}

void SequenceMaker::Make(int64_t record, const SampleId& id, int64_t /*item*/, const Shape& shape,
                         SampleScratch& scratch, std::span<float> data, std::span<float> label) const {
  RandomStream random(options_.seed, StreamOf(id));
  const Plan plan = PlanOf(videos_[static_cast<size_t>(record)], random);
  const Shape written = shape.Erased(0);
  const auto part = static_cast<size_t>(written.Count());
  FrameCut cut;
  for (size_t i = 0; i < plan.stacks.size(); ++i) {
    const std::span<float> out = data.subspan(i * part, part);
    if (plan.stacks[i].empty()) {
      std::ranges::fill(out, 0.0F);
      continue;
    }
    const CropSize size = LoadStack(plan.stacks[i], scratch);
    const CropSize now = WrittenSize(options_, size);
    if (now.height != written[1] || now.width != written[2]) {
      throw Error(ErrorKind::kBadData, {},
                  StrCat("its pictures are ", now.height, "x", now.width, " (height x width), the first were ",
                         written[1], "x", written[2]),
                  "all samples of a layer have one shape: set new_height and new_width, or crop_size");
    }
    // Sequences of clips draw the place of each clip's crop, and one coin a sequence; others draw once a video.
    const bool draws = options_.dialect == Dialect::kClips || i == 0;
    const uint64_t coin = kFrameMirrorPosition + i % static_cast<size_t>(options_.segments);
    if (draws) cut = CutFrames(options_, size, options_.mirror && IsMirrored(options_.seed, id, coin), random);
    const bool fits = cut.window.y + cut.window.height <= size.height && cut.window.x + cut.window.width <= size.width;
    if (!fits) throw Error(ErrorKind::kBadData, "the pictures of the video differ in size");
    const std::vector<float> none;
    const std::vector<float>& factors = plan.factors.empty() ? none : plan.factors[i % plan.factors.size()];
    WriteFrames(options_, size, cut, written, factors, scratch, out);
  }
  std::ranges::copy(plan.labels, label.begin());
}

}  // namespace moka
