// Each picture's files are placed as it is answered; the lists that make them a set come last, so that a run that was
// stopped leaves no set that is smaller than it says.
#include "tools/infer/annotate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "tools/infer/frames.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::pair<std::string_view, AnnotationKind>, 4> kKinds = {{{"coco", AnnotationKind::kCoco},
                                                                                {"voc", AnnotationKind::kVoc},
                                                                                {"yolo", AnnotationKind::kYolo},
                                                                                {"folders", AnnotationKind::kFolders}}};

// A text with what a list of names, or a name of a file, cannot hold replaced by "_".
std::string PlainName(std::string_view text, std::string_view unwanted) {
  std::string plain = Printable(Trim(text));  // bytes that are no text become \xNN
  for (char& c : plain) {
    if (unwanted.find(c) != std::string_view::npos) c = '_';
  }
  if (plain.starts_with('.')) plain[0] = '_';  // readers leave out what is hidden
  return plain;
}

// A field of a CSV (RFC 4180).
std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += StrCat(c == '"' ? "\"" : "", c);
  return quoted + "\"";
}

// The ending of a picture's copy: its own, or that of its format.
std::string EndingOf(const fs::path& file, const std::string& bytes) {
  return IsImageName(file.filename().string()) ? file.extension().string() : std::string(PictureEndingOf(bytes));
}

std::string CsvLine(const std::vector<std::string>& fields) {
  std::vector<std::string> quoted;
  for (const std::string& field : fields) quoted.push_back(CsvField(field));
  return Join(quoted, ",") + "\n";
}

}  // namespace

OptionSpec AnnotateOption() {
  return {"annotate", "KIND",
          "write annotations: coco, voc or yolo (boxes), coco (instances), folders (classes, masks); --out FOLDER"};
}

OptionSpec ScoreOption() {
  return {"score", "X",
          "boxes below it are not shown (default: the card's, else 0.3); --annotate folders: unsure pictures (0)"};
}

std::optional<AnnotationKind> AnnotationKindOf(const Arguments& arguments, const InferSource& source,
                                               std::initializer_list<AnnotationKind> fit) {
  if (!arguments.Has("annotate")) return std::nullopt;
  const std::string word = arguments.Get("annotate");
  std::vector<std::string> all;
  std::vector<std::string> fitting;
  std::optional<AnnotationKind> found;
  for (const auto& [name, kind] : kKinds) {
    all.emplace_back(name);
    if (std::ranges::find(fit, kind) != fit.end()) fitting.emplace_back(name);
    if (name == word) found = kind;
  }
  if (!found) {
    const std::string near = DidYouMean(word, all);
    throw Error(ErrorKind::kUsage, {},
                StrCat("--annotate wants one of ", Join(all, ", "), ", found \"", Printable(word), "\""),
                near.empty() ? StrCat("for this model: ", Join(fitting, ", ")) : near);
  }
  if (std::ranges::find(fit, *found) == fit.end()) {
    throw Error(
        ErrorKind::kUsage, {},
        StrCat("--annotate ", word, " does not fit the answers of task: ", ModelCard::Task_Name(source.card.task())),
        StrCat("for this model: ", Join(fitting, ", ")));
  }
  return found;
}

AnnotationFolder::AnnotationFolder(AnnotationKind kind, const Arguments& arguments, const InferSource& source,
                                   int64_t classes)
    : kind_(kind), folder_(arguments.Get("out", "annotations")), out_(folder_), given_(source.names) {
  NamesTo(std::max(classes, std::ssize(given_)) - 1);
}

const std::vector<std::string>& AnnotationFolder::NamesTo(int64_t label) {
  while (std::ssize(names_) <= label) {
    const size_t next = names_.size();
    const std::string given = next < given_.size() ? given_[next] : std::string();
    // Only names of folders must do without a slash.
    std::string name = PlainName(given, kind_ == AnnotationKind::kFolders ? "/\\" : "\\");
    if (name.empty()) name = std::to_string(next);
    // ImageNet has two classes "crane": a reader would make them one.
    if (std::ranges::find(names_, name) != names_.end()) name += StrCat("_", next);
    if (name != given && !given.empty()) {
      LogWarning(StrCat("class ", next, ", \"", Printable(given), "\", is called \"", name, "\" in the annotations"));
    }
    names_.push_back(std::move(name));
  }
  return names_;
}

std::string AnnotationFolder::StemFor(const fs::path& file) {
  const std::string stem = file.stem().string();
  const std::string plain = PlainName(stem, " \t\\");
  if (plain != stem) ++renamed_;
  // An ending of its own, as a stem may have dots.
  return fs::path(out_.NameFor(plain + ".x")).filename().string();
}

std::string AnnotationFolder::CopyPicture(const fs::path& file, const std::string& stem, const std::string& folder) {
  const std::string bytes = ReadFile(file);
  const std::string ending = EndingOf(file, bytes);
  std::string name = StrCat(folder, "/", stem, ending);
  CreateFolders(folder_ / folder);
  PlaceFile(folder_ / name, bytes);
  return name;
}

void AnnotationFolder::Write(const std::string& name, const std::string& text) const {
  CreateFolders((folder_ / name).parent_path());
  PlaceFile(folder_ / name, text);
}

std::string AnnotationFolder::AddObjects(const fs::path& file, const Image& picture, std::vector<ScoredObject> objects,
                                         double uncertainty) {
  constexpr double kLeast = 0.01;  // pixels, which is what the formats keep
  areas_ += static_cast<int64_t>(std::erase_if(objects, [](const ScoredObject& object) {
    return object.box.xmax - object.box.xmin < kLeast || object.box.ymax - object.box.ymin < kLeast;
  }));
  for (const ScoredObject& object : objects) {
    if (object.label < 1) throw Error(ErrorKind::kConfig, "the net finds objects of class 0, which stands for none");
    NamesTo(object.label);
  }
  const std::string stem = StemFor(file);
  const std::string copied = CopyPicture(file, stem, kind_ == AnnotationKind::kVoc ? "JPEGImages" : "images");
  const LabelledPicture labelled{
      fs::path(copied).filename().string(), {picture.width, picture.height}, picture.channels, std::move(objects)};
  rows_.push_back({copied, file.string(), uncertainty});
  if (kind_ == AnnotationKind::kCoco) {
    coco_.Add(labelled);
    return (folder_ / "instances.json").string();
  }
  const bool is_voc = kind_ == AnnotationKind::kVoc;
  const std::string name = is_voc ? StrCat("Annotations/", stem, ".xml") : StrCat("labels/", stem, ".txt");
  Write(name, is_voc ? VocText(labelled, names_) : YoloText(labelled));
  list_ += stem + "\n";
  for (const ScoredObject& object : labelled.objects) {
    const PixelBox& box = object.box;
    scores_ += CsvLine({copied, names_[static_cast<size_t>(object.label)], fmt::format("{:.6f}", object.score),
                        fmt::format("{:.2f}", box.xmin), fmt::format("{:.2f}", box.ymin),
                        fmt::format("{:.2f}", box.xmax), fmt::format("{:.2f}", box.ymax)});
  }
  return (folder_ / name).string();
}

std::string AnnotationFolder::AddClass(const fs::path& file, const FoundClass& found, double uncertainty) {
  const std::string& name = NamesTo(found.label)[static_cast<size_t>(found.label)];
  const std::string folder = found.is_sure ? StrCat("images/", name) : std::string("unsure");
  const std::string stem = StemFor(file);
  const std::string ending = EndingOf(file, ReadFile(file));
  std::vector<std::string> others{"unsure"};
  for (const std::string& other : names_) others.push_back(StrCat("images/", other));
  for (const std::string& other : others) {
    const fs::path placed = folder_ / other / (stem + ending);
    std::error_code code;
    if (other == folder || !fs::exists(placed, code)) continue;
    throw Error(ErrorKind::kCantCreate, {},
                StrCat(Printable(placed.string()), " is there from an earlier run, and this one puts it into ", folder),
                "a picture would have two classes: remove it, or give another folder by --out");
  }
  const std::string copied = CopyPicture(file, stem, folder);
  rows_.push_back({copied, file.string(), uncertainty, name, found.score});
  return (folder_ / copied).string();
}

std::string AnnotationFolder::AddMask(const fs::path& file, const Image& mask, double uncertainty) {
  has_masks_ = true;
  const std::string stem = StemFor(file);
  rows_.push_back({CopyPicture(file, stem, "images"), file.string(), uncertainty});
  const std::string name = StrCat("masks/", stem, ".png");
  Write(name, EncodePng(mask));
  return (folder_ / name).string();
}

void AnnotationFolder::WriteUncertainty() const {
  std::vector<const Row*> order;
  for (const Row& row : rows_) order.push_back(&row);
  std::ranges::stable_sort(order, std::greater<>(), [](const Row* row) { return row->uncertainty; });
  const bool has_class = !rows_.front().found.empty();
  std::string text = has_class ? "picture,file,uncertainty,class,score\n" : "picture,file,uncertainty\n";
  for (const Row* row : order) {
    std::vector<std::string> fields{row->picture, row->file, fmt::format("{:.6f}", row->uncertainty)};
    if (has_class) fields.insert(fields.end(), {row->found, fmt::format("{:.6f}", row->score)});
    text += CsvLine(fields);
  }
  Write("uncertainty.csv", text);
}

std::string AnnotationFolder::WriteLists() const {
  const std::string out = folder_.string();
  const auto from = [](const std::vector<std::string>& names, size_t first) {
    std::string text;
    for (size_t i = first; i < names.size(); ++i) text += names[i] + "\n";
    return text;
  };
  switch (kind_) {
    case AnnotationKind::kCoco:
      Write("instances.json", coco_.Finish(names_));
      return StrCat("coco:", out, "/instances.json,", out, "/images DATABASE");
    case AnnotationKind::kVoc:
      Write("classes.txt", from(names_, 1));
      Write("ImageSets/Main/train.txt", list_);
      return StrCat("voc:", out, ",train,", out, "/classes.txt DATABASE");
    case AnnotationKind::kYolo:
      Write("scores.csv", "picture,class,score,xmin,ymin,xmax,ymax\n" + scores_);
      Write("classes.txt", from(names_, 1));
      return StrCat("yolo:", out, "/images,", out, "/labels,", out, "/classes.txt DATABASE");
    case AnnotationKind::kFolders: break;
  }
  if (!has_masks_) {
    Write("labels.txt", from(names_, 0));
    return StrCat(out, "/images DATABASE --classes ", out, "/labels.txt");
  }
  std::string classes;
  for (size_t i = 0; i < names_.size(); ++i) classes += StrCat(i, " ", names_[i], "\n");
  Write("classes.txt", classes);
  return StrCat("masks:", out, "/images,", out, "/masks,,", out, "/classes.txt DATABASE");
}

void AnnotationFolder::Finish() {
  if (rows_.empty()) return;
  if (renamed_ > 0) {
    LogWarning(StrCat(renamed_, renamed_ == 1 ? " picture's name has" : " pictures' names have",
                      " blanks or other characters that lists cannot hold: they are copied with \"_\" there"));
  }
  if (areas_ > 0) {
    LogWarning(StrCat(areas_, areas_ == 1 ? " box has" : " boxes have",
                      " no area in its picture: no reader keeps such, they are left out"));
  }
  const std::string source = WriteLists();
  WriteUncertainty();
  LogInfo(StrCat("annotations of ", rows_.size(), rows_.size() == 1 ? " picture" : " pictures", " in ",
                 Printable(folder_.string()), "; read back by: moka data import ", Printable(source)));
}

}  // namespace moka
