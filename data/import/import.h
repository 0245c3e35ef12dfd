// Making LMDBs from what people have: of Datums from idx files, CIFAR's binary batches, folders of class folders, image
// lists, tar archives of images, drawn glyphs, and tables of numbers; of AnnotatedDatums from pictures with boxes; and
// of SampleRecords (proto/record.proto) from pictures with boxes, masks, numbers or texts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/import/import_options.h"

namespace moka {

// All write a new database folder `out` by LmdbWriter's protocol: it is whole or absent, and what an import that did
// not finish has made stays in OUT.partial for the next one. Pictures changed in between under their old names are not
// seen. Errors: kNoInput, kBadData naming the file and what is wrong, kCantCreate, kIo when the disk is full,
// kInterrupted.

// MNIST's format, plain or gzipped.
ImportReport ImportIdx(const std::filesystem::path& images, const std::filesystem::path& labels,
                       const std::filesystem::path& out, const ImportOptions& options);
// CIFAR-10's data_batch_N.bin files, or CIFAR-100's train.bin/test.bin (fine labels). Planes are stored as B,G,R.
enum class CifarKind { kTen, kHundred };
ImportReport ImportCifar(const std::vector<std::filesystem::path>& batches, CifarKind kind,
                         const std::filesystem::path& out, const ImportOptions& options);
// FOLDER/CLASS/IMAGE; classes in alphabetical order are the labels and are written to labels.txt. Hidden files and
// files that are no images by their extension are left out.
ImportReport ImportFolder(const std::filesystem::path& folder, const std::filesystem::path& out,
                          const ImportOptions& options);
// Lines "path label", paths below `root`.
ImportReport ImportList(const std::filesystem::path& list, const std::filesystem::path& root,
                        const std::filesystem::path& out, const ImportOptions& options);
// Pictures with boxes, for AnnotatedData layers: AnnotatedDatums of the lines "picture annotation" of a list; `root` is
// put before both names as text, as Caffe does. A picture whose annotation file does not exist has no objects.
struct AnnotationOptions {
  std::string format = {};  // xml, json or txt; empty: by each annotation file's extension
  std::filesystem::path
      label_map;  // a LabelMap in text; not needed for txt, whose labels are numbers: those of the map, if it is given
  bool check_label = false;       // a name or a label given twice in the label map is an error
  bool stops_at_bad_file = true;  // false: what on_bad_record says goes for annotation files, too
};
ImportReport ImportAnnotated(const std::filesystem::path& list, const std::string& root,
                             const AnnotationOptions& annotations, const std::filesystem::path& out,
                             const ImportOptions& options);
// AnnotatedDatums without boxes, of lines "path label".
ImportReport ImportAnnotatedClasses(const std::filesystem::path& list, const std::string& root,
                                    const std::filesystem::path& out, const ImportOptions& options);
// Members SPLIT/CLASS/IMAGE of a tar or tar.gz, or CLASS/IMAGE when split is empty.
ImportReport ImportTar(const std::filesystem::path& tar, std::string_view split, const std::filesystem::path& out,
                       const ImportOptions& options);
// Drawn digits (glyphs.h).
ImportReport ImportGlyphs(int64_t count, uint64_t seed, const std::filesystem::path& out, const ImportOptions& options);

// The next three make SampleRecords, and their folders may be a tar archive or a folder of one ("set.tar/pictures").

// PASCAL VOC's layout: Annotations/NAME.xml, JPEGImages/NAME.jpg and the names in ImageSets/Main/SPLIT.txt, or in
// ImageSets/Segmentation/SPLIT.txt where the former does not exist or the split is "Segmentation/SPLIT"; then
// SegmentationClass/NAME.png are the masks. `classes` is a LabelMap or a list of names from class 1 on; empty: the
// classes that the annotations name, in alphabetical order, from 1.
ImportReport ImportVoc(const std::filesystem::path& folder, const std::string& split,
                       const std::filesystem::path& classes, const std::filesystem::path& out,
                       const ImportOptions& options);
// COCO's annotations (coco_file.h) of a folder of pictures; classes count from 1 in the order of the categories' ids.
ImportReport ImportCoco(const std::filesystem::path& annotations, const std::filesystem::path& pictures,
                        const std::filesystem::path& out, const ImportOptions& options);
// YOLO's files: a folder of pictures and one of text files of the same names (the extension aside), with a line
// "class x y width height" a box in parts of the picture's sides. `classes` has a name a line, from class 0, which
// becomes 1. A picture without a file has no boxes.
ImportReport ImportYolo(const std::filesystem::path& pictures, const std::filesystem::path& boxes,
                        const std::filesystem::path& classes, const std::filesystem::path& out,
                        const ImportOptions& options);
// A folder of pictures and one of PNGs of the same names (the extension aside), whose values are each pixel's class, or
// the number of its object (all of class 1; 0: none). `list` names the pictures, a line each; empty: all of the folder.
// `classes` has a line a class, from 0: its name; or "VALUE NAME" in each line, the value that the class has in the
// masks (255 for the inside of a mask of 0 and 255, say). Empty: the values are the classes, without names.
struct MaskFiles {
  std::filesystem::path pictures;
  std::filesystem::path masks;
  std::filesystem::path list = {};
  std::filesystem::path classes = {};
};
enum class MaskKind { kClasses, kInstances };
ImportReport ImportMasks(const MaskFiles& files, MaskKind kind, const std::filesystem::path& out,
                         const ImportOptions& options);

// SampleRecords of lines "path,number,number..", the first of which names the columns; paths below `root`.
ImportReport ImportCsv(const std::filesystem::path& file, const std::filesystem::path& root,
                       const std::filesystem::path& out, const ImportOptions& options);
// WebDataset's shards: one name, names with a range ("data-{000..012}.tar") or with *, ? and []. Members are the parts
// of a sample by their extensions: .jpg .jpeg .png .webp the picture, .cls its class, .txt a text, .target numbers,
// .seg.png or .mask.png a mask; others are left out. Datums where all have picture and class alone, else SampleRecords.
ImportReport ImportShards(const std::string& pattern, const std::filesystem::path& out, const ImportOptions& options);
// The records of a LevelDB, Datums or AnnotatedDatums, as they are and in their order; the database is not changed.
// Errors besides: kUsage for options that would change records; kUnavailable when another process has it open.
ImportReport ImportLevelDb(const std::filesystem::path& folder, const std::filesystem::path& out,
                           const ImportOptions& options);

// The Datums of a database anew, in another storage or size: photographs decoded and made smaller, say, on a local
// disk. Errors besides: kUsage for another kind of records.
ImportReport ImportLmdb(const std::filesystem::path& database, const std::filesystem::path& out,
                        const ImportOptions& options);

// Chooses among the above by the source's text: KIND:PARTS, FOLDER, FILE.tar[.gz], FILE.txt, or an idx image file,
// whose label file's name differs as MNIST's do.
ImportReport Import(std::string_view source, const std::filesystem::path& out, const ImportOptions& options);

// How each kind of source is written, and what it is.
std::vector<std::pair<std::string, std::string>> ImportSources();

// A text table (blanks, commas or semicolons between columns, quotes allowed; a header line is found by itself) becomes
// databases of float Datums: OUT/train_features, OUT/train_target, OUT/test_features, OUT/test_target, and
// OUT/table.json with the columns, the split and each feature's mean and standard deviation.
struct TableOptions {
  std::string target = {};                 // a column: its header name, or its number from 0
  std::vector<std::string> features = {};  // empty: all columns but the target
  std::vector<std::string> one_hot = {};   // feature columns of categories: k values become k-1 columns of 0 and 1
  enum class Scaling { kNone, kStandardize } scaling = Scaling::kStandardize;  // by the train rows' mean and std
  int64_t test_every = 5;  // row i (from 0, after dropping rows with "?") is test when i mod n = n-1; 0: no test rows
};
struct TableReport {
  int64_t train_rows = 0;
  int64_t test_rows = 0;
  int64_t dropped_rows = 0;
  std::vector<std::string> columns;  // of the features, as written
  std::vector<double> mean;
  std::vector<double> stddev;
};
TableReport ImportTable(const std::filesystem::path& table, const std::filesystem::path& out,
                        const TableOptions& options);

}  // namespace moka
