// Segmentation: pictures in, a class for each pixel out: coloured on the picture with a legend, and as a grey PNG of
// class numbers.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/image/drawing.h"
#include "tools/cli/print.h"
#include "tools/infer/annotate.h"
#include "tools/infer/class_map.h"
#include "tools/infer/out_folder.h"
#include "tools/infer/picture_report.h"
#include "tools/infer/shown_answers.h"
#include "tools/infer/tasks.h"
#include "tools/train/program_options.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDrawnEnding = "_overlay.png";

// A class of a picture and its part of the pixels.
struct ClassShare {
  int64_t label = 0;
  std::string name;
  double share = 0;
};

// Those that there are, the largest first.
std::vector<ClassShare> ClassSharesOf(const ClassMap& map, const InferSource& source) {
  std::vector<int64_t> counts(256);
  for (const uint8_t label : map.classes) ++counts[label];
  std::vector<ClassShare> shares;
  for (int64_t label = 0; label < 256; ++label) {
    if (counts[static_cast<size_t>(label)] == 0) continue;
    shares.push_back(
        {label, NameOf(source, label),
         static_cast<double>(counts[static_cast<size_t>(label)]) / static_cast<double>(map.classes.size())});
  }
  std::ranges::stable_sort(shares, std::greater<>(), &ClassShare::share);
  return shares;
}

// The names of the classes beside their colours, as high as the picture or higher.
Image LegendOf(const std::vector<ClassShare>& shares, int64_t height) {
  constexpr int64_t kSwatch = 14;
  constexpr int64_t kLine = 20;
  const WordStyle style;
  int64_t width = 0;
  std::vector<std::string> lines;
  for (const ClassShare& share : shares) {
    lines.push_back(fmt::format("{} {:.1f}%", share.name, 100 * share.share));
    width = std::max(width, SizeOfWords(lines.back(), style).width);
  }
  const auto count = static_cast<int64_t>(lines.size());
  Image legend = Paper(width + kSwatch + 12, std::max(height, count * kLine + 6));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t top = 6 + i * kLine;
    const MarkBox box{4, static_cast<double>(top), 4 + static_cast<double>(kSwatch),
                      static_cast<double>(top + kSwatch)};
    constexpr int kFilled = -1;
    DrawBox(box, ColorOf(shares[static_cast<size_t>(i)].label), kFilled, legend);
    DrawWords(lines[static_cast<size_t>(i)], kSwatch + 8, top, style, legend);
  }
  return legend;
}

// The picture in its classes' colours beside their legend.
Image OverlayOf(Image picture, const ClassMap& map, const std::vector<ClassShare>& shares, int64_t ignored) {
  if (picture.channels != 3) ConvertChannels(3, picture);
  std::vector<uint8_t> mask(map.classes.size());
  constexpr double kPart = 0.5;
  std::vector<ClassShare> drawn;
  for (const ClassShare& share : shares) {
    if (share.label == ignored) continue;
    drawn.push_back(share);
    std::ranges::transform(map.classes, mask.begin(),
                           [&](uint8_t label) { return label == share.label ? uint8_t{1} : uint8_t{0}; });
    BlendMask(mask, ColorOf(share.label), kPart, picture);
  }
  const Image legend = LegendOf(drawn, picture.height);
  Image sheet = Paper(picture.width + legend.width, std::max(picture.height, legend.height));
  Paste(picture, 0, 0, sheet);
  Paste(legend, picture.width, 0, sheet);
  return sheet;
}

Image GrayOf(const ClassMap& map) { return {map.width, map.height, 1, map.classes}; }

MapOptions OptionsOf(const PictureNet& net, const InferSource& source, const Arguments& arguments) {
  const SegmentationCard& card = source.card.segmentation();
  MapOptions options{.output = net.answer(), .margin = card.margin()};
  const int64_t side = std::min(net.input_shape()[2], net.input_shape()[3]);
  const int64_t overlap = card.overlap() > 0 ? card.overlap() : std::max<int64_t>(side / 8, card.margin());
  // A map that leaves out a margin says nothing of the border of a picture that fills the input.
  if (arguments.Has("tile") || card.margin() > 0) {
    options.overlap = arguments.Int("overlap", overlap, card.margin(), INT32_MAX);
  } else if (arguments.Has("overlap")) {
    throw Error(ErrorKind::kUsage, {}, "--overlap is of tiles", "give --tile too");
  }
  CheckMapOptions(net, options);
  return options;
}

PictureJson JsonOf(const fs::path& file, const ClassMap& map, const std::vector<ClassShare>& shares) {
  PictureJson classes = PictureJson::array();
  for (const ClassShare& share : shares)
    classes.push_back({{"label", share.name}, {"index", share.label}, {"share", share.share}});
  return {{"file", file.string()}, {"width", map.width}, {"height", map.height}, {"classes", classes}};
}

void PrintShares(const PictureJson& answer) {
  Print("{}\n", TextAt(answer, "file") + WrittenText(answer, {"annotation", "overlay"}));
  for (const PictureJson& share : answer.at("classes"))
    Print("  {:5.1f} %  {}\n", 100 * NumberAt(share, "share"), TextAt(share, "label"));
}

class MapAnswers : public TaskAnswers {
 public:
  MapAnswers(const InferSource& source, const SharedWeights& weights)
      : source_(source), net_(source, 1, {}, weights), options_(OptionsOf(net_, source, Arguments())) {
    TellOutput(net_, net_.answer());
    RefuseIndices(net_, net_.answer());
    CheckNames(source_, options_.output, net_.output(options_.output).shape()[1]);
  }

  AskedKind kind() const override { return AskedKind::kPicture; }
  bool draws() const override { return true; }
  PictureNet* net() override { return &net_; }
  TaskAnswer Answer(const AskedContent& asked) override {
    const Image picture = net_.LoadBytes(asked.bytes, asked.name, 0);
    const ClassMap map = MapOf(net_, picture, options_);
    const std::vector<ClassShare> shares = ClassSharesOf(map, source_);
    TaskAnswer answer{.json = PictureJson::array({JsonOf(asked.name, map, shares)})};
    if (asked.draws) answer.drawn = OverlayOf(picture, map, shares, source_.card.segmentation().ignored());
    return answer;
  }

 private:
  const InferSource& source_;
  PictureNet net_;
  MapOptions options_;
};

int RunSegment(const InferSource& source, const std::vector<std::string>& inputs, const Arguments& arguments) {
  const std::vector<fs::path> files = PicturesToInfer(inputs, arguments);
  PictureNet net(source, arguments.Int("batch", 1, 1, 65536));
  TellOutput(net, net.answer());
  RefuseIndices(net, net.answer());
  MapOptions options = OptionsOf(net, source, arguments);
  const std::optional<AnnotationKind> kind = AnnotationKindOf(arguments, source, {AnnotationKind::kFolders});
  options.has_entropy = kind.has_value();
  const int64_t classes = net.output(options.output).shape()[1];
  CheckNames(source, options.output, classes);
  RefuseUnreadBeforeLook(arguments, {"out", "json", "trace"});
  if (LookInside(arguments, "infer", net.program())) return 0;
  std::optional<OutFolder> drawings;
  std::optional<AnnotationFolder> annotations;
  if (kind) {
    annotations.emplace(*kind, arguments, source, std::max<int64_t>(classes, 2));  // one alone stands beside the rest
  } else {
    drawings.emplace(arguments.Get("out", "segments"));
  }
  PictureReport report(arguments);
  const auto segment = [&](const fs::path& file) {  // a batch holds tiles of one picture
    const Image picture = net.Load(file, 0);
    const ClassMap map = MapOf(net, picture, options);
    const std::vector<ClassShare> shares = ClassSharesOf(map, source);
    PictureJson json = JsonOf(file, map, shares);
    if (annotations) {
      json["annotation"] = annotations->AddMask(file, GrayOf(map), map.entropy);
      json["uncertainty"] = map.entropy;
    } else {
      const std::string name = drawings->NameFor(file);
      const std::string overlay = name + kDrawnEnding;
      const std::string class_map = name + "_classes.png";
      PlaceFile(overlay, EncodePng(OverlayOf(picture, map, shares, source.card.segmentation().ignored())));
      PlaceFile(class_map, EncodePng(GrayOf(map)));
      json["overlay"] = overlay;
      json["class_map"] = class_map;
    }
    if (report.as_json()) return report.Add(std::move(json));
    PrintShares(json);
  };
  const FilesSeen done = ForEachFile(files, segment);
  if (annotations) annotations->Finish();
  report.Finish(done.files.size());
  return done.code;
}

}  // namespace

InferTask SegmentTask() {
  return {.task = ModelCard::SEGMENT,
          .run = RunSegment,
          .answers = MakeAnswers<MapAnswers>,
          .form = {.print = PrintShares, .drawn_ending = kDrawnEnding, .drawn_key = "overlay"},
          .options =
              {{"tile", "",
                "overlapping tiles of pictures at their own size, not resized; --overlap N: pixels at sides not used"},
               {"overlap", "N", ""},
               AnnotateOption()},
          .shows_classes = true};
}

}  // namespace moka
