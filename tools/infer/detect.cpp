// Detection: pictures in, boxes with classes out: as lines or JSON, and drawn on the pictures.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/image/drawing.h"
#include "tools/cli/print.h"
#include "tools/infer/annotate.h"
#include "tools/infer/detected_boxes.h"
#include "tools/infer/out_folder.h"
#include "tools/infer/picture_report.h"
#include "tools/infer/shown_answers.h"
#include "tools/infer/tasks.h"
#include "tools/infer/track_video.h"
#include "tools/infer/uncertainty.h"
#include "tools/train/program_options.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDrawnEnding = "_boxes.png";

Image DrawnOn(Image picture, const std::vector<ShownBox>& boxes, const InferSource& source) {
  if (picture.channels != 3) ConvertChannels(3, picture);
  const int thickness = picture.width >= 400 ? 2 : 1;
  for (const ShownBox& found : boxes) DrawBox(found.box, ColorOf(found.label), thickness, picture);
  for (const ShownBox& found : boxes) {
    const WordStyle style{.scale = 0.4, .has_ground = true, .ground = ColorOf(found.label)};
    const std::string words = fmt::format("{} {:.2f}", NameOf(source, found.label), found.score);
    DrawWords(words, std::lround(found.box.left), std::lround(found.box.top) - SizeOfWords(words, style).height, style,
              picture);
  }
  return picture;
}

PictureJson JsonOf(const fs::path& file, const Image& picture, const std::vector<ShownBox>& boxes,
                   const InferSource& source) {
  PictureJson list = PictureJson::array();
  for (const ShownBox& found : boxes) {
    list.push_back({{"label", NameOf(source, found.label)},
                    {"index", found.label},
                    {"score", found.score},
                    {"box", {found.box.left, found.box.top, found.box.right, found.box.bottom}}});
  }
  return {{"file", file.string()}, {"width", picture.width}, {"height", picture.height}, {"boxes", list}};
}

void PrintBoxes(const PictureJson& answer) {
  Print("{}\n", TextAt(answer, "file") + WrittenText(answer, {"annotation", "picture"}));
  for (const PictureJson& found : answer.at("boxes")) PrintBox(found);
}

std::vector<ScoredObject> ObjectsOf(const std::vector<ShownBox>& boxes) {
  std::vector<ScoredObject> objects;
  for (const ShownBox& found : boxes) {
    const MarkBox& box = found.box;
    objects.push_back({static_cast<int32_t>(found.label), {box.left, box.top, box.right, box.bottom}, found.score});
  }
  return objects;
}

class BoxAnswers : public PictureAnswers {
 public:
  BoxAnswers(const InferSource& source, const SharedWeights& weights)
      : PictureAnswers(source, weights), rows_(RowsOutput(own_net())) {}

  bool draws() const override { return true; }
  TaskAnswer AnswerOf(const AskedContent& asked, const PreparedPicture& prepared,
                      const NetOutputs& outputs) const override {
    const std::vector<ShownBox> boxes =
        BoxesOf(outputs[0].tensor(), 0, source().card.detection().score(), prepared.picture, prepared.shown);
    TaskAnswer answer{.json = PictureJson::array({JsonOf(asked.name, prepared.picture, boxes, source())})};
    if (asked.draws) answer.drawn = DrawnOn(prepared.picture, boxes, source());
    return answer;
  }

 protected:
  std::vector<std::string> Wanted() const override { return {rows_}; }

 private:
  std::string rows_;
};

int RunDetect(const InferSource& source, const std::vector<std::string>& inputs, const Arguments& arguments) {
  if (arguments.Has("track")) return TrackVideos(source, inputs, arguments);
  const std::vector<fs::path> files = PicturesToInfer(inputs, arguments);
  const double least = arguments.Number("score", source.card.detection().score(), 0, 1);
  const std::optional<AnnotationKind> kind =
      AnnotationKindOf(arguments, source, {AnnotationKind::kCoco, AnnotationKind::kVoc, AnnotationKind::kYolo});
  PictureNet net(source, PicturesARun(files, arguments));
  const std::string output = RowsOutput(net);
  const Tensor rows = net.output(output);
  RefuseUnreadBeforeLook(arguments, {"out", "json", "trace"});
  if (LookInside(arguments, "infer", net.program())) return 0;
  std::optional<OutFolder> drawings;
  std::optional<AnnotationFolder> annotations;
  if (kind) {
    annotations.emplace(*kind, arguments, source, net.WriterOf(output).detection_output_param().num_classes());
  } else {
    drawings.emplace(arguments.Get("out", "detections"));
  }
  PictureReport report(arguments);
  const FilesSeen done = ForEachPicture(net, files, [&](const fs::path& file, const Image& picture, int64_t slot) {
    const std::vector<ShownBox> boxes = BoxesOf(rows, slot, least, picture, net.shown(slot));
    std::string written;
    double uncertainty = 0;
    if (annotations) {
      uncertainty = DetectionUncertainty(AllScoresOf(rows, slot));
      written = annotations->AddObjects(file, picture, ObjectsOf(boxes), uncertainty);
    } else {
      written = drawings->NameFor(file) + kDrawnEnding;
      PlaceFile(written, EncodePng(DrawnOn(picture, boxes, source)));
    }
    PictureJson json = JsonOf(file, picture, boxes, source);
    json[annotations ? "annotation" : "picture"] = written;
    if (annotations) json["uncertainty"] = uncertainty;
    if (report.as_json()) return report.Add(std::move(json));
    PrintBoxes(json);
  });
  if (annotations) annotations->Finish();
  report.Finish(done.files.size());
  return done.code;
}

}  // namespace

InferTask DetectTask() {
  return {.task = ModelCard::DETECT,
          .run = RunDetect,
          .answers = MakeAnswers<BoxAnswers>,
          .form = {.print = PrintBoxes, .drawn_ending = kDrawnEnding},
          .options = {ScoreOption(),
                      AnnotateOption(),
                      {"track", "",
                       "follow objects through a video (--out tracks; --fps X, --line, --zone, --drawn FORMAT)"},
                      {"fps", "X", "", '\0', "--track"},
                      {"line", "X1,Y1,X2,Y2", "", ':', "--track"},
                      {"zone", "X1,Y1,X2,Y2,..", "", ':', "--track"},
                      {"drawn", "FORMAT", "", '\0', "--track"}},
          .shows_classes = true};
}

}  // namespace moka
