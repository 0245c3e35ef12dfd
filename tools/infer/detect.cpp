// Detection: pictures in, boxes with classes out: as lines or JSON, and drawn on the pictures.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/image/drawing.h"
#include "tools/cli/print.h"
#include "tools/infer/out_folder.h"
#include "tools/infer/picture_report.h"
#include "tools/infer/tasks.h"
#include "tools/train/program_options.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRowColumns = 7;  // item, class, score, xmin, ymin, xmax, ymax as parts of the picture

struct ShownBox {
  int64_t label = 0;
  double score = 0;
  MarkBox box;  // pixels of the picture
};

// The output that holds DetectionOutput's rows [1,1,R,7]. Errors: kConfig.
std::string RowsOutput(const PictureNet& net) {
  for (const std::string& name : net.outputs()) {
    const Shape shape = net.output(name).shape();
    if (shape.rank() == 4 && shape[3] == kRowColumns) return name;
  }
  throw Error(ErrorKind::kConfig, {}, "no output of the net is rows [1,1,R,7] of boxes",
              "detection nets end in a DetectionOutput layer in the phase TEST");
}

// Returns the boxes found on a picture, the highest score first.
std::vector<ShownBox> BoxesOf(const Tensor& rows, int64_t slot, double least, const Image& picture,
                              const ImageBox& shown) {
  std::vector<ShownBox> boxes;
  const std::span<const float> all = rows.as<const float>();
  const auto width = static_cast<double>(picture.width);
  const auto height = static_cast<double>(picture.height);
  for (size_t i = 0; i + kRowColumns <= all.size(); i += kRowColumns) {
    const std::span<const float> row = all.subspan(i, kRowColumns);
    if (row[0] != static_cast<float>(slot) || row[1] < 0 || !(row[2] >= least)) continue;
    const auto x = [&](float part) { return std::clamp(shown.x + double{part} * shown.width, 0.0, 1.0) * width; };
    const auto y = [&](float part) { return std::clamp(shown.y + double{part} * shown.height, 0.0, 1.0) * height; };
    const MarkBox box{x(row[3]), y(row[4]), x(row[5]), y(row[6])};
    if (shown.width * shown.height > 1 && !(box.right > box.left && box.bottom > box.top)) continue;  // beside it
    boxes.push_back({static_cast<int64_t>(row[1]), static_cast<double>(row[2]), box});
  }
  std::ranges::stable_sort(boxes, std::greater<>(), &ShownBox::score);
  return boxes;
}

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
                   const InferSource& source, const std::string& drawn) {
  PictureJson list = PictureJson::array();
  for (const ShownBox& found : boxes) {
    list.push_back({{"label", NameOf(source, found.label)},
                    {"index", found.label},
                    {"score", found.score},
                    {"box", {found.box.left, found.box.top, found.box.right, found.box.bottom}}});
  }
  return {{"file", file.string()},
          {"width", picture.width},
          {"height", picture.height},
          {"boxes", list},
          {"picture", drawn}};
}

void PrintBoxes(const fs::path& file, const std::vector<ShownBox>& boxes, const InferSource& source,
                const std::string& drawn) {
  Print("{} -> {}\n", file.string(), drawn);
  for (const ShownBox& found : boxes) {
    Print("  {:.4f} - \"{}\" {:.0f},{:.0f} to {:.0f},{:.0f}\n", found.score, NameOf(source, found.label),
          found.box.left, found.box.top, found.box.right, found.box.bottom);
  }
}

int RunDetect(const InferSource& source, const std::vector<std::string>& inputs, const Arguments& arguments) {
  const std::vector<fs::path> files = PicturesToInfer(inputs, arguments);
  const double least = arguments.Number("score", source.card.detection().score(), 0, 1);
  PictureNet net(source, PicturesARun(files, arguments));
  const Tensor rows = net.output(RowsOutput(net));
  RefuseUnreadBeforeLook(arguments, {"out", "json", "trace"});
  if (LookInside(arguments, "infer", net.program())) return 0;
  OutFolder out(arguments.Get("out", "detections"));
  PictureReport report(arguments);
  const FilesSeen done = ForEachPicture(net, files, [&](const fs::path& file, const Image& picture, int64_t slot) {
    const std::vector<ShownBox> boxes = BoxesOf(rows, slot, least, picture, net.shown(slot));
    const std::string drawn = out.NameFor(file) + "_boxes.png";
    PlaceFile(drawn, EncodePng(DrawnOn(picture, boxes, source)));
    if (report.as_json()) return report.Add(JsonOf(file, picture, boxes, source, drawn));
    PrintBoxes(file, boxes, source, drawn);
  });
  report.Finish(done.files.size());
  return done.code;
}

}  // namespace

InferTask DetectTask() {
  return {.task = ModelCard::DETECT,
          .run = RunDetect,
          .options = {{"score", "X", "boxes below this score are not shown (default: the card's, else 0.3)"}},
          .shows_classes = true};
}

}  // namespace moka
