// Instance segmentation: pictures in, objects with boxes and masks out: as lines or JSON, and drawn on the pictures.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/image/drawing.h"
#include "data/labels/run_lengths.h"
#include "layers/ops/paste.h"
#include "tools/cli/print.h"
#include "tools/infer/annotate.h"
#include "tools/infer/detected_boxes.h"
#include "tools/infer/out_folder.h"
#include "tools/infer/picture_report.h"
#include "tools/infer/shown_answers.h"
#include "tools/infer/tasks.h"
#include "tools/infer/uncertainty.h"
#include "tools/train/program_options.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kInstanceColumns = 7;  // item, class, score, xmin, ymin, xmax, ymax as parts of the input
constexpr double kMaskThreshold = 0.5;   // of a pixel's probability

constexpr int kIndent = -1;  // of JSON: masks are long
constexpr const char* kDrawnEnding = "_instances.png";

struct FoundInstance {
  int64_t label = 0;
  double score = 0;
  MarkBox box;      // pixels of the picture, cut to it
  MarkBox place;    // the same uncut: where the mask lies
  int64_t row = 0;  // of the net's outputs
};

// The names of the net's outputs: rows [1,1,R,7] and their masks [R,1,S,S].
struct InstanceOutputs {
  std::string rows;
  std::string masks;
};

// Errors: kConfig.
InstanceOutputs OutputsOf(const PictureNet& net) {
  for (const std::string& rows : net.outputs()) {
    const Shape shape = net.output(rows).shape();
    if (shape.rank() != 4 || shape[0] != 1 || shape[1] != 1 || shape[3] != kInstanceColumns) continue;
    for (const std::string& masks : net.outputs()) {
      const Shape of = net.output(masks).shape();
      const bool fits = of.rank() == 4 && of[0] == shape[2] && of[1] == 1 && of[2] == of[3];
      if (masks != rows && fits) return {rows, masks};
    }
  }
  throw Error(ErrorKind::kConfig, {}, "the net's outputs are not rows [1,1,R,7] of boxes and their masks [R,1,S,S]",
              "nets of instances end in RegionOutput and a Sigmoid of their masks in the phase TEST");
}

// Returns the instances found on a picture, the highest score first.
std::vector<FoundInstance> InstancesOf(const Tensor& rows, int64_t slot, double least, const Image& picture,
                                       const ImageBox& shown) {
  std::vector<FoundInstance> found;
  const std::span<const float> all = rows.as<const float>();
  const auto width = static_cast<double>(picture.width);
  const auto height = static_cast<double>(picture.height);
  for (size_t i = 0; i + kInstanceColumns <= all.size(); i += kInstanceColumns) {
    const std::span<const float> row = all.subspan(i, kInstanceColumns);
    if (row[0] != static_cast<float>(slot) || row[1] < 0 || !(row[2] >= least)) continue;
    const auto x = [&](float part) { return (shown.x + double{part} * shown.width) * width; };
    const auto y = [&](float part) { return (shown.y + double{part} * shown.height) * height; };
    const MarkBox place{x(row[3]), y(row[4]), x(row[5]), y(row[6])};
    const MarkBox box{std::clamp(place.left, 0.0, width), std::clamp(place.top, 0.0, height),
                      std::clamp(place.right, 0.0, width), std::clamp(place.bottom, 0.0, height)};
    if (!(box.right > box.left && box.bottom > box.top)) continue;  // of the canvas beside the picture
    found.push_back({static_cast<int64_t>(row[1]), static_cast<double>(row[2]), box, place,
                     static_cast<int64_t>(i) / kInstanceColumns});
  }
  std::ranges::stable_sort(found, std::greater<>(), &FoundInstance::score);
  return found;
}

// The instance's pixels on a picture that is `zoom` times as large.
Image MaskOfInstance(const FoundInstance& found, const Tensor& masks, int64_t zoom, int64_t width, int64_t height) {
  Image mask;
  mask.Resize(width * zoom, height * zoom, 1);
  std::ranges::fill(mask.pixels, uint8_t{0});
  const int64_t size = masks.shape()[3];
  const auto scale = static_cast<double>(zoom);
  const Box<double> box = {found.place.left * scale, found.place.top * scale, found.place.right * scale,
                           found.place.bottom * scale};
  PasteMask(masks.as<const float>().data() + found.row * size * size, size, box, mask.height, mask.width,
            kMaskThreshold, [&](int64_t y, int64_t x) { mask.pixels[static_cast<size_t>(y * mask.width + x)] = 1; });
  return mask;
}

// Masks in colours of their own, boxes, and scores where a box has room for them.
Image DrawnOn(const Image& picture, const std::vector<FoundInstance>& instances, const Tensor& masks, int64_t zoom,
              const InferSource& source) {
  Image drawn = picture;
  if (drawn.channels != 3) ConvertChannels(3, drawn);
  if (zoom > 1) {
    Image large;
    ResizeImage(drawn, drawn.width * zoom, drawn.height * zoom, Interpolation::kNearest, large);
    std::swap(drawn, large);
  }
  constexpr double kPart = 0.45;
  for (size_t i = 0; i < instances.size(); ++i) {
    const Image mask = MaskOfInstance(instances[i], masks, zoom, picture.width, picture.height);
    BlendMask(mask.pixels, ColorOf(static_cast<int64_t>(i)), kPart, drawn);
  }
  const auto scale = static_cast<double>(zoom);
  for (size_t i = 0; i < instances.size(); ++i) {
    const FoundInstance& found = instances[i];
    const Color color = ColorOf(static_cast<int64_t>(i));
    const MarkBox box{found.box.left * scale, found.box.top * scale, found.box.right * scale, found.box.bottom * scale};
    DrawBox(box, color, 1, drawn);
    const WordStyle style{.scale = 0.35, .has_ground = true, .ground = color};
    const std::string score = fmt::format("{:.2f}", found.score);
    const std::string words =
        source.names.size() > 2 ? fmt::format("{} {}", NameOf(source, found.label), score) : score;
    if (static_cast<double>(SizeOfWords(words, style).width) > box.right - box.left) continue;
    DrawWords(words, std::lround(box.left), std::lround(box.top) - SizeOfWords(words, style).height, style, drawn);
  }
  return drawn;
}

// Masks are left out where there are none given: they take the longest.
PictureJson JsonOf(const fs::path& file, const Image& picture, const std::vector<FoundInstance>& instances,
                   const Tensor* masks, const InferSource& source) {
  PictureJson list = PictureJson::array();
  for (const FoundInstance& found : instances) {
    list.push_back({{"label", NameOf(source, found.label)},
                    {"index", found.label},
                    {"score", found.score},
                    {"box", {found.box.left, found.box.top, found.box.right, found.box.bottom}}});
    if (masks == nullptr) continue;
    const RunLengths runs = RunLengthsOf(MaskOfInstance(found, *masks, 1, picture.width, picture.height));
    list.back()["segmentation"] = {{"size", {picture.height, picture.width}}, {"counts", runs}};
  }
  return {{"file", file.string()}, {"width", picture.width}, {"height", picture.height}, {"instances", list}};
}

void PrintInstances(const PictureJson& answer) {
  const PictureJson& instances = answer.at("instances");
  Print("{}: {}\n", TextAt(answer, "file") + WrittenText(answer, {"annotation", "picture"}),
        Counted(std::ssize(instances), "object", "objects"));
  for (const PictureJson& found : instances) PrintBox(found);
}

std::vector<ScoredObject> ObjectsOf(const std::vector<FoundInstance>& instances, const Tensor& masks,
                                    const Image& picture) {
  std::vector<ScoredObject> objects;
  for (const FoundInstance& found : instances) {
    const MarkBox& box = found.box;
    objects.push_back({static_cast<int32_t>(found.label),
                       {box.left, box.top, box.right, box.bottom},
                       found.score,
                       RunLengthsOf(MaskOfInstance(found, masks, 1, picture.width, picture.height))});
  }
  return objects;
}

class InstanceAnswers : public PictureAnswers {
 public:
  InstanceAnswers(const InferSource& source, const SharedWeights& weights)
      : PictureAnswers(source, weights), names_(OutputsOf(own_net())) {}

  bool draws() const override { return true; }
  TaskAnswer AnswerOf(const AskedContent& asked, const PreparedPicture& prepared,
                      const NetOutputs& outputs) const override {
    const Image& picture = prepared.picture;
    const Tensor& masks = outputs[1].tensor();
    const std::vector<FoundInstance> found =
        InstancesOf(outputs[0].tensor(), 0, source().card.detection().score(), picture, prepared.shown);
    TaskAnswer answer{.json = PictureJson::array({JsonOf(asked.name, picture, found, &masks, source())}),
                      .indent = kIndent};
    if (asked.draws) answer.drawn = DrawnOn(picture, found, masks, 1, source());
    return answer;
  }

 protected:
  std::vector<std::string> Wanted() const override { return {names_.rows, names_.masks}; }

 private:
  InstanceOutputs names_;
};

int RunInstances(const InferSource& source, const std::vector<std::string>& inputs, const Arguments& arguments) {
  const std::vector<fs::path> files = PicturesToInfer(inputs, arguments);
  const int64_t batch = arguments.Int("batch", 1, 1, 65536);  // canvases are large
  const double least = arguments.Number("score", source.card.detection().score(), 0, 1);
  const std::optional<AnnotationKind> kind = AnnotationKindOf(arguments, source, {AnnotationKind::kCoco});
  const int64_t zoom = kind ? 1 : arguments.Int("zoom", 1, 1, 16);
  PictureNet net(source, batch);
  const InstanceOutputs outputs = OutputsOf(net);
  const Tensor rows = net.output(outputs.rows);
  const Tensor masks = net.output(outputs.masks);
  RefuseUnreadBeforeLook(arguments, {"out", "json", "trace"});
  if (LookInside(arguments, "infer", net.program())) return 0;
  std::optional<OutFolder> drawings;
  std::optional<AnnotationFolder> annotations;
  if (kind) {
    annotations.emplace(*kind, arguments, source, 0);
  } else {
    drawings.emplace(arguments.Get("out", "instances"));
  }
  PictureReport report(arguments);
  const FilesSeen done = ForEachPicture(net, files, [&](const fs::path& file, const Image& picture, int64_t slot) {
    const std::vector<FoundInstance> found = InstancesOf(rows, slot, least, picture, net.shown(slot));
    std::string written;
    double uncertainty = 0;
    if (annotations) {
      uncertainty = DetectionUncertainty(AllScoresOf(rows, slot));
      written = annotations->AddObjects(file, picture, ObjectsOf(found, masks, picture), uncertainty);
    } else {
      written = drawings->NameFor(file) + kDrawnEnding;
      PlaceFile(written, EncodePng(DrawnOn(picture, found, masks, zoom, source)));
    }
    PictureJson json = JsonOf(file, picture, found, report.as_json() ? &masks : nullptr, source);
    json[annotations ? "annotation" : "picture"] = written;
    if (annotations) json["uncertainty"] = uncertainty;
    if (report.as_json()) return report.Add(std::move(json));
    PrintInstances(json);
  });
  if (annotations) annotations->Finish();
  report.Finish(done.files.size(), kIndent);
  return done.code;
}

}  // namespace

InferTask InstancesTask() {
  return {.task = ModelCard::INSTANCES,
          .run = RunInstances,
          .answers = MakeAnswers<InstanceAnswers>,
          .form = {.print = PrintInstances, .drawn_ending = kDrawnEnding, .indent = kIndent},
          .options = {ScoreOption(),
                      AnnotateOption(),
                      {"zoom", "N", "instances are drawn on pictures so many times as large (default 1)"}},
          .shows_classes = true};
}

}  // namespace moka
