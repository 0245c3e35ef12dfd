// moka new classify: class folders of pictures to a small residual net, by the recipe of models/clothing_resnet.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/records/class_names.h"
#include "tools/new/recipe.h"
#include "tools/new/templates.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kFewestOfClass = 5;
constexpr int64_t kBatch = 32;
constexpr int64_t kSmallSide = 64;  // pixels: below, a net has no stride to spare

// Whether a folder holds class folders, and no pictures of its own: a class that happens to be called "train" does.
bool HoldsClasses(const fs::path& folder) {
  bool has_folder = false;
  std::error_code ignored;
  for (const fs::path& entry : SortedEntries(folder)) {
    if (fs::is_directory(entry, ignored))
      has_folder = true;
    else if (IsImageName(entry.filename().string()))
      return false;
  }
  return has_folder;
}

std::vector<PartSource> FindClassFolders(const std::string& source, const fs::path& /*folder*/) {
  std::vector<PartSource> parts = PartFolders(source, HoldsClasses);
  if (parts.empty()) parts.push_back({"train", source});
  return parts;
}

fs::path NumberFolders(const PictureFacts& first, const fs::path& folder, std::vector<PartSource>& /*sources*/) {
  if (first.report().labels.empty()) return {};
  const fs::path file = folder / "labels.txt";
  PlaceFile(file, Join(first.report().labels, "\n") + "\n");
  return file;
}

// The names of the classes, of which a source of numbers alone has none.
std::vector<std::string> ClassNames(const NewData& data) {
  std::vector<std::string> names = data.train().facts->report().labels;
  const std::map<int64_t, int64_t> labels = data.train().facts->labels();
  if (labels.empty()) {
    throw Error(ErrorKind::kBadData, {}, StrCat(Printable(data.train().source), ": its pictures have no classes"),
                "expected FOLDER/CLASS/PICTURE, a list of lines \"path label\", or another source with a label");
  }
  if (labels.begin()->first < 0) {
    throw Error(ErrorKind::kBadData,
                StrCat(Printable(data.train().source), ": class ", labels.begin()->first, " is below 0"));
  }
  for (int64_t label = std::ssize(names); label <= labels.rbegin()->first; ++label) names.push_back(StrCat(label));
  return names;
}

void RefuseFewPictures(const NewData& data, const std::vector<std::string>& names) {
  if (names.size() < 2) {
    throw Error(
        ErrorKind::kBadData, {},
        StrCat(Printable(data.train().source), ": all pictures are of one class, \"", Printable(names.at(0)), "\""),
        "a net tells two classes or more apart");
  }
  const std::map<int64_t, int64_t> all = data.train().facts->labels();
  const std::map<int64_t, int64_t> trained = data.train().Labels();
  std::vector<std::string> few;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto label = static_cast<int64_t>(i);
    const int64_t count = all.contains(label) ? all.at(label) : 0;
    if (count < kFewestOfClass || !trained.contains(label)) {
      few.push_back(StrCat("\"", Printable(names[i]), "\" has ", count));
    }
  }
  if (few.empty()) return;
  throw Error(ErrorKind::kBadData, {},
              StrCat("classes with too few pictures: ", Join(few, ", "), "; each needs ", kFewestOfClass, " or more"),
              "add pictures, or move the folder away");
}

struct Sides {
  int64_t median = 0;  // of the pictures' shorter sides
  int64_t train = 0;   // pixels of a training's crop
  int64_t test = 0;
  bool is_small = false;
  bool is_one_size = false;  // all pictures are squares of `train`
  int64_t stored = 0;        // the longer side in the database, at most
};

Sides SidesOf(const NewPart& train, const std::string& size) {
  std::vector<double> shorts;
  for (const int64_t i : train.pictures) {
    shorts.push_back(static_cast<double>(std::min(train.row(i).width, train.row(i).height)));
  }
  Sides sides;
  sides.median = static_cast<int64_t>(Quantile(shorts, 0.5));
  sides.is_small = sides.median < kSmallSide;
  if (sides.is_small) {
    sides.train = sides.test = std::clamp<int64_t>((sides.median + 2) / 4 * 4, 16, kSmallSide);
    sides.stored = std::max<int64_t>(sides.train, 2 * sides.train);
    sides.is_one_size = std::ranges::all_of(train.pictures, [&](int64_t i) {
      return train.row(i).width == sides.train && train.row(i).height == sides.train;
    });
    return sides;
  }
  constexpr int64_t kStep = 16;
  const int64_t wanted = size == "small" ? 80 : size == "large" ? 144 : 112;
  sides.test = std::clamp<int64_t>(sides.median / kStep * kStep, kSmallSide, wanted);
  sides.train = sides.test * 6 / 7 / kStep * kStep;
  sides.stored = 2 * sides.train;
  return sides;
}

std::string TrainCutOf(const Sides& sides, bool is_mirrored) {
  const std::string mirror = is_mirrored ? " mirror: true" : "";
  if (sides.is_one_size) return StrCat("pad: ", sides.train / 8, " crop_size: ", sides.train, mirror);
  return StrCat("rand_resized_crop { scale_min: ", sides.is_small ? "0.5" : "0.25", " } crop_size: ", sides.train,
                mirror);
}

void AddSides(const Sides& sides, bool is_mirrored, bool is_mixed, Values& values) {
  const std::string force = is_mixed ? " force_color: true" : "";
  const std::string resized = sides.is_one_size ? "" : StrCat("resize_short: ", sides.test, " ");
  values["train_cut"] = TrainCutOf(sides, is_mirrored) + force;
  values["test_cut"] = StrCat(resized, "crop_size: ", sides.test, force);
  values["test_side"] = StrCat(sides.test);
  values["max_side"] = StrCat(sides.stored);
  values["test_why"] = sides.train == sides.test
                           ? "A test sees whole pictures, or their middle."
                           : fmt::format(
                                 "Tests see {} pixels, trainings {}: things in random crops are shown larger, "
                                 "which this makes up for.",
                                 sides.test, sides.train);
  const std::string median = fmt::format("half of the pictures have a shorter side of {} pixels or less", sides.median);
  values["size_words"] =
      sides.is_small
          ? fmt::format("{0}x{0} pixels: {1}, so the first convolution keeps their size.", sides.train, median)
          : fmt::format(
                "Trained on crops of {} pixels, tested on {} (7/6 of it; Touvron et al. 2019): {}, and `--size` "
                "allows no more. Databases keep {} pixels of the longer side, twice the crop.",
                sides.train, sides.test, median, sides.stored);
  const std::string cut =
      sides.is_one_size ? fmt::format("A shift of up to {} pixels", sides.train / 8)
                        : fmt::format("A rectangle of {} to 100 % of the picture is cut out", sides.is_small ? 50 : 25);
  values["augment_words"] =
      cut + (is_mirrored ? ", and half of all pictures are mirrored: where left and right matter (letters, arrows), "
                           "remove `mirror: true`."
                         : ". Small grey pictures are mostly letters, figures or marks, so nothing is mirrored; "
                           "`mirror: true` does it.");
}

// Rows of a table of the classes and how often each is in the parts.
std::string ClassRows(const NewData& data, const std::vector<std::string>& names) {
  std::string rows;
  for (size_t i = 0; i < names.size(); ++i) {
    rows += StrCat("| ", Printable(names[i]), " |");
    for (const NewPart& part : data.parts) {
      const std::map<int64_t, int64_t> counts = part.Labels();
      const auto found = counts.find(static_cast<int64_t>(i));
      rows += StrCat(" ", found == counts.end() ? 0 : found->second, " |");
    }
    rows += "\n";
  }
  return rows;
}

const char* StemSection(const Sides& sides) { return sides.is_small ? "small_pictures" : "photographs"; }

std::string TrainNet(const Values& values, const NewData& data, const Sides& sides) {
  std::vector<std::string> sections = {"head", "blocks", "data"};
  if (data.parts.size() > 2) sections.emplace_back("held_out");
  sections.insert(sections.end(), {StemSection(sides), "body", "losses"});
  return Filled(SectionsOf(ClassifyTemplate(), sections), values);
}

Values WithWidth(Values values, int64_t width) {
  for (const int64_t stage : {1, 2, 3, 4}) values[StrCat("w", stage)] = StrCat(width << (stage - 1));
  return values;
}

// Widths of the first stage that are tried. Wide nets learn few pictures by heart.
std::vector<int64_t> WidthsFor(int64_t pictures, const std::string& size) {
  constexpr int64_t kFew = 200;
  constexpr int64_t kMany = 5000;
  if (size == "small" || pictures < kFew) return {24, 16};
  if (pictures < kMany) return {32, 24, 16};
  return {64, 48, 32, 24, 16};
}

NewModel DeriveClassifier(const NewData& data, const NewOptions& options) {
  const std::vector<std::string> names = ClassNames(data);
  RefuseFewPictures(data, names);
  const NewPart& train = data.train();
  const Sides sides = SidesOf(train, options.budget.name);
  const ColorFacts colors = train.facts->ColorsOf(train.pictures);
  const bool is_grey = colors.mean.size() == 1;
  const bool has_grey = std::ranges::any_of(train.pictures, [&](int64_t i) { return train.row(i).channels == 1; });
  const int64_t batch = std::clamp<int64_t>(train.size() / 4, 4, kBatch);
  Values values = CommonValues(data, options);
  AddSides(sides, !(is_grey && sides.is_small), !is_grey && has_grey, values);
  AddColors(colors, values);
  AddTestBatches(data, 64, values);
  values["classes"] = StrCat(names.size());
  values["class_rows"] = ClassRows(data, names);
  values["batch"] = StrCat(batch);
  Search search;
  search.widths = WidthsFor(train.size(), options.budget.name);
  search.pictures = train.size();
  search.batch = batch;
  search.samples = 100'000;
  search.least_epochs = 20;
  search.most_epochs = 240;
  search.shapes = {{"data", Shape{batch, std::ssize(colors.mean), sides.train, sides.train}}, {"label", Shape{batch}}};
  search.train_net = [&](int64_t width) { return TrainNet(WithWidth(values, width), data, sides); };
  const Choice choice = Choose(search, options);
  values = WithWidth(values, choice.width);
  AddLength(choice, search, values);
  NewModel model;
  model.files =
      ModelFiles(ClassifyTemplate(), {"head", "blocks", "input", StemSection(sides), "body", "scores"}, values);
  model.files["train_val.prototxt"] = TrainNet(values, data, sides);
  model.files["labels.txt"] = Join(names, "\n") + "\n";
  model.storage = PixelStorage(data, sides.stored);
  model.lines = {fmt::format("{} classes: {}", names.size(), CountsText(names, train.facts->labels())),
                 PartsText(data)};
  AddChoiceLines(choice, search, model);
  return model;
}

}  // namespace

NewTask ClassifyNewTask() {
  return {.name = "classify",
          .source = "FOLDER/CLASS/PICTURE, or FOLDER/train and FOLDER/val of such",
          .find = FindClassFolders,
          .number = NumberFolders,
          .derive = DeriveClassifier};
}

}  // namespace moka
