// Importer of COCO's annotations: boxes, their masks where the file has segmentations, and their key points.
#include <algorithm>
#include <cmath>

#include "core/checksum.h"
#include "core/error.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/import/import.h"
#include "data/import/record_writer.h"
#include "data/import/source_kind.h"
#include "data/labels/coco_file.h"
#include "data/labels/sample_writing.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// Boxes come rounded to hundredths of a pixel, so that some end a little outside.
bool IsOutsidePicture(const PixelBox& box, const PictureSize& size) {
  constexpr double kSlack = 1;  // pixels
  return box.xmin < -kSlack || box.ymin < -kSlack || box.xmax > static_cast<double>(size.width) + kSlack ||
         box.ymax > static_cast<double>(size.height) + kSlack;
}

// A pixel's place is that of its centre.
void AddPoints(const CocoAnnotation& object, const PictureSize& size, SampleBox& box) {
  for (const CocoPoint& point : object.points) {
    SamplePoint& made = *box.add_point();
    if (point.flag == CocoPoint::Flag::kNotLabelled) continue;
    made.set_x(static_cast<float>((point.x + 0.5) / static_cast<double>(size.width)));
    made.set_y(static_cast<float>((point.y + 0.5) / static_cast<double>(size.height)));
    if (point.flag == CocoPoint::Flag::kVisible) made.set_visible(true);
    if (point.flag == CocoPoint::Flag::kHidden) made.set_hidden(true);
  }
}

void AddObject(const CocoAnnotation& object, const PictureSize& size, bool has_masks, SampleRecord& record,
               RecordWarnings& warnings) {
  const std::string name = StrCat("annotation ", object.id, ": the box ", object.box.ToText());
  SampleBox* const box = AddBox(size, object.box, object.label, name, record, warnings);
  if (box == nullptr) return;
  if (IsOutsidePicture(object.box, size)) warnings.push_back(ReachesOutside(name, size));
  if (object.is_crowd) box->set_crowd(true);
  AddPoints(object, size, *box);
  if (!has_masks) return;
  try {
    const RunLengths runs = PixelsOf(object, size);
    box->mutable_run()->Assign(runs.begin(), runs.end());
  } catch (const Error& e) {
    throw Error(e.kind(), {}, StrCat("annotation ", object.id, ": ", e.text()), e.hint());
  }
}

void AddCocoObjects(const CocoPicture& picture, bool has_masks, const Image& image, SampleRecord& record,
                    RecordWarnings& warnings) {
  const PictureSize size{image.width, image.height};
  const bool is_stated = picture.size.width > 0 && picture.size.height > 0;
  if (is_stated && (picture.size.width != size.width || picture.size.height != size.height)) {
    throw Error(ErrorKind::kBadData, StrCat("the size stated is ", picture.size.width, " x ", picture.size.height,
                                            " and the picture's ", size.width, " x ", size.height));
  }
  for (const CocoAnnotation& object : picture.objects) AddObject(object, size, has_masks, record, warnings);
}

int64_t CountWithoutOutline(const CocoFile& coco) {
  int64_t count = 0;
  for (const CocoPicture& picture : coco.pictures) {
    count += std::ranges::count_if(picture.objects, [](const CocoAnnotation& object) { return !HasOutline(object); });
  }
  return count;
}

// Errors: kBadData where all boxes are written as parts of the pictures' sides.
void RefuseParts(const CocoFile& coco, const fs::path& annotations) {
  bool has_fraction = false;
  for (const CocoPicture& picture : coco.pictures) {
    for (const CocoAnnotation& object : picture.objects) {
      for (const double at : {object.box.xmin, object.box.ymin, object.box.xmax, object.box.ymax}) {
        if (at < 0 || at > 1) return;
        has_fraction = has_fraction || at != std::floor(at);
      }
    }
  }
  if (!has_fraction) return;
  throw Error(ErrorKind::kBadData, {}, StrCat(annotations.string(), ": no box reaches beyond the first pixel"),
              "boxes are x, y, width and height in pixels: these seem to be parts of the pictures' sides");
}

}  // namespace

ImportReport ImportCoco(const fs::path& annotations, const fs::path& pictures, const fs::path& out,
                        const ImportOptions& options) {
  const auto step = [&] { CheckImportStop(options); };
  const CocoFile coco = ReadCocoFile(annotations, step);
  RefuseParts(coco, annotations);
  const FileTree tree(pictures, step);
  int64_t bytes = 0;
  for (const CocoPicture& picture : coco.pictures) bytes += tree.BytesOf(picture.file);
  const auto count = static_cast<int64_t>(coco.pictures.size());
  RecordWriter writer(out, options,
                      {.text = StrCat("coco ", annotations.string(), " ", pictures.string()),
                       .items = count,
                       .crc32c = coco.crc32c,
                       .bytes = bytes,
                       .kind = RecordKind::kSample});
  for (const int64_t i : ImportOrder(count, options)) {
    const CocoPicture& picture = coco.pictures[static_cast<size_t>(i)];
    ImportItem item{.name = picture.file, .file_bytes = tree.BytesOf(picture.file)};
    item.read = [&] {
      std::string file;
      RecordWarnings none;
      InFile(StrCat(annotations.string(), ": image ", picture.id), none, [&] { file = tree.Read(picture.file); });
      return file;
    };
    item.describe_sample = [&](const Image& image, SampleRecord& record, RecordWarnings& warnings) {
      InFile(StrCat(annotations.string(), ": ", picture.file), warnings,
             [&] { AddCocoObjects(picture, coco.has_masks, image, record, warnings); });
    };
    writer.Add(std::move(item));
  }
  SampleSchema schema = NewSchema();
  schema.set_boxes(true);
  if (coco.has_masks) schema.set_box_masks(true);
  for (const std::string& name : coco.classes) schema.add_box_class(name);
  for (const std::string& name : coco.point_names) schema.add_box_point(name);
  for (const auto& [from, to] : coco.skeleton) {
    PointLink& link = *schema.add_skeleton();
    link.set_from(from);
    link.set_to(to);
  }
  ImportReport report = writer.FinishSamples(schema);
  const bool has_objects = std::ranges::any_of(coco.pictures, [](const CocoPicture& p) { return !p.objects.empty(); });
  if (!has_objects) report.warnings.push_back(StrCat(annotations.string(), ": no annotations: no picture has a box"));
  if (const int64_t bare = CountWithoutOutline(coco); coco.has_masks && bare > 0) {
    report.warnings.push_back(StrCat(annotations.string(), ": ", bare, bare == 1 ? " box has" : " boxes have",
                                     " no outline, as others have: the whole rectangle is the mask"));
  }
  return report;
}

SourceKind CocoSource() {
  return {.kind = "coco",
          .parts = "ANNOTATIONS,PICTURES",
          .makes = "COCO's JSON: boxes with masks",
          .least = 2,
          .most = 2,
          .import = [](const SourceParts& parts, const std::filesystem::path& out, const ImportOptions& options) {
            return ImportCoco(parts[0], parts[1], out, options);
          }};
}

}  // namespace moka
