// moka new classify: class folders of pictures to a small residual net, by the recipe of models/clothing_resnet.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/records/class_names.h"
#include "tools/new/fine_tune.h"
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
  fs::path file = folder / "labels.txt";
  PlaceFile(file, Join(first.report().labels, "\n") + "\n");
  return file;
}

// The names of the classes, of which a source of numbers alone has none.
std::vector<std::string> ClassNames(const NewData& data) {
  std::vector<std::string> names = data.train().facts->report().labels;
  const std::map<int64_t, int64_t> labels = data.train().facts->labels();
  if (labels.empty()) {
    throw Error(ErrorKind::kBadData, {}, StrCat(Printable(data.source), ": its pictures have no classes"),
                "expected FOLDER/CLASS/PICTURE, a list of lines \"path label\", or another source with a label");
  }
  if (labels.begin()->first < 0) {
    throw Error(ErrorKind::kBadData, StrCat(Printable(data.source), ": class ", labels.begin()->first, " is below 0"));
  }
  for (int64_t label = std::ssize(names); label <= labels.rbegin()->first; ++label) names.push_back(StrCat(label));
  return names;
}

void RefuseFewPictures(const NewData& data, const std::vector<std::string>& names) {
  if (names.size() < 2) {
    throw Error(ErrorKind::kBadData, {},
                StrCat(Printable(data.source), ": all pictures are of one class, \"", Printable(names.at(0)), "\""),
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

Sides SidesOf(const NewPart& train, NewSize size) {
  std::vector<double> shorts;
  for (const int64_t i : train.pictures) {
    shorts.push_back(static_cast<double>(std::min(train.row(i).width, train.row(i).height)));
  }
  Sides sides;
  sides.median = static_cast<int64_t>(Quantile(shorts, 0.5));
  sides.is_small = sides.median < kSmallSide;
  if (sides.is_small) {
    sides.train = sides.test = std::clamp<int64_t>((sides.median + 2) / 4 * 4, 16, kSmallSide);
    sides.stored = 2 * sides.train;
    sides.is_one_size = std::ranges::all_of(train.pictures, [&](int64_t i) {
      return train.row(i).width == sides.train && train.row(i).height == sides.train;
    });
    return sides;
  }
  constexpr int64_t kStep = 16;
  const int64_t wanted = size == NewSize::kSmall ? 80 : size == NewSize::kLarge ? 144 : 112;
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
  std::string colors = StrCat("\n    ", values.at("mean"));
  if (!values.at("std").empty()) colors += StrCat("\n    ", values.at("std"));
  const std::string jitter = values.at("depth") == "3" ? "color { brightness: 0.2 contrast: 0.2 saturation: 0.2 }"
                                                       : "color { brightness: 0.2 contrast: 0.2 }";
  values["train_transform"] = StrCat(TrainCutOf(sides, is_mirrored), force, colors, "\n    augment { ", jitter, " }");
  values["test_transform"] = StrCat(resized, "crop_size: ", sides.test, force, colors);
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
                "Trained on crops of {} pixels, tested on {} ({} times as many; Touvron et al. 2019): {}, and `--size` "
                "allows no more. Databases keep {} pixels of the longer side, twice the crop.",
                sides.train, sides.test, Rounded(static_cast<double>(sides.test) / static_cast<double>(sides.train), 2),
                median, sides.stored);
  const std::string cut =
      sides.is_one_size ? fmt::format("A shift of up to {} pixels", sides.train / 8)
                        : fmt::format("A rectangle of {} to 100 % of the picture is cut out", sides.is_small ? 50 : 25);
  values["augment_words"] =
      cut + "; brightness, contrast and, of coloured pictures, saturation change by up to a fifth" +
      (is_mirrored ? "; half of all pictures are mirrored: where left and right matter (letters, arrows), "
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

// Widths of the four stages, and what is said of them.
void SetWidth(int64_t width, Values& values) {
  AddWidths(width, 4, values);
  if (!values.at("layers").empty()) return;
  values["net_words"] = fmt::format(
      "A residual net: a 3x3 convolution, four stages of one basic block ({} to {} channels), the mean over all\n"
      "# places, a product.",
      width, width * 8);
}

Recipe RecipeOf(const Sides& sides, const std::optional<StartNet>& start) {
  Recipe recipe{
      .text = ClassifyTemplate(), .front = {"head"}, .net = {"started"}, .behind = {"scores"}, .set_width = SetWidth};
  if (start) return recipe;
  recipe.front.emplace_back("blocks");
  recipe.net = {sides.is_small ? "small_pictures" : "photographs", "body"};
  return recipe;
}

// Widths of the first stage that are tried. Wide nets learn few pictures by heart.
std::vector<int64_t> WidthsFor(int64_t pictures, NewSize size) {
  constexpr int64_t kFew = 200;
  constexpr int64_t kMany = 5000;
  if (size == NewSize::kSmall || pictures < kFew) return {24, 16};
  if (pictures < kMany) return {32, 24, 16};
  return {64, 48, 32, 24, 16};
}

constexpr int64_t kFew = 2000;  // pictures that a net learns by heart

// The values that differ between a training from nothing and one from another net's weights.
void AddScratch(Values& values) {
  values["input"] = "data";
  values["scores"] = "fc";
  values["layers"] = "";
  values["start"] = "";
  values["base_lr"] = "0.05";
  values["first_lr"] = "0.01";
  values["rate_words"] = "that of models/clothing_resnet, found for batches of 32";
  values["decay"] = "0.002";
  values["decay_words"] = "strong, since few pictures are learned from for many epochs";
  values["color_words"] = StrCat("Mean and deviation (", values.at("channels"), ", 0 to 255) are those of the ",
                                 values.at("train"), " pictures of the training.");
}

// The fields of a transform with the colours that the first net had.
std::string Forced(const std::string& fields, const StartNet& start, bool has_gray, bool has_color) {
  const std::string force = has_gray && start.channels == 3    ? "\n    force_color: true"
                            : has_color && start.channels == 1 ? "\n    force_gray: true"
                                                               : "";
  return fields.find("force_") == std::string::npos ? fields + force : fields;
}

void AddStart(const StartNet& start, bool is_anew, bool has_gray, bool has_color, Values& values) {
  values["input"] = start.input;
  values["scores"] = start.scores;
  values["layers"] = start.layers;
  values["classifier"] = start.classifier;
  values["start_file"] = StrCat("start", start.weights.extension().string());
  values["base_lr"] = is_anew ? "0.4" : "0.02";
  values["first_lr"] = is_anew ? "0.04" : "0.002";
  values["rate_words"] = "of the new classifier; all other layers have lr_mult 0.1, a tenth of it";
  values["decay"] = is_anew ? "0.002" : "0.0005";
  values["decay_words"] =
      is_anew ? "strong, since few pictures are learned from for many epochs" : "little: the weights are good already";
  values["color_words"] = "Mean and deviation are those that the first net was trained with.";
  values["net_words"] = StrCat("The net of ", Printable(start.word), " with a classifier of its own, \"",
                               start.classifier, "\"", start.is_finer ? ", and without its first strides" : "", ".");
  if (start.is_finer) {
    values["size_words"] = fmt::format(
        "{0}x{0} pixels, much less than the first net had: its first strides are taken out, so that it sees as much in "
        "them, by the same weights.",
        start.train_side);
    return;
  }
  values["train_transform"] = Forced(start.train_transform, start, has_gray, has_color);
  values["test_transform"] = Forced(start.test_transform, start, has_gray, has_color);
  values["test_side"] = StrCat(start.test_side);
  values["test_why"] = "Tests have pictures as the first net's had them.";
  values["depth"] = StrCat(start.channels);
  values["size_words"] =
      StrCat(start.train_side, " pixels in trainings and ", start.test_side, " in tests, as the first net has them.");
  values["augment_words"] = "What the first net's training changes, too.";
}

// Returns the solver that trains the classifier alone first, where pictures are few.
std::optional<std::string> AddHead(int64_t pictures, const NetChoice& choice, Values& values) {
  constexpr int64_t kHeadEpochs = 5;
  if (pictures >= kFew) {
    values["start"] = StrCat("weights: ", Quoted(values.at("start_file")), "  # what training starts from\n");
    return std::nullopt;
  }
  values["start"] = "first_solver: \"solver_head.prototxt\"  # trains the classifier alone first: few pictures\n";
  values["head_epochs"] = StrCat(kHeadEpochs);
  values["head_iter"] = StrCat(std::max<int64_t>(1, kHeadEpochs * pictures / choice.length.batch));
  return Filled(SectionOf(ClassifyTemplate(), "head_solver"), values);
}

// Few pictures whose net learns them anew, as finely as it can, take as long as from nothing.
bool LearnsAnew(const std::optional<StartNet>& start, int64_t pictures) {
  return !start || (start->is_finer && pictures < kFew);
}

Search SearchOf(const NewData& data, const NewOptions& options, const std::optional<StartNet>& start) {
  const int64_t pictures = data.train().size();
  Search search;
  search.widths = start ? std::vector<int64_t>{0} : WidthsFor(pictures, options.budget.size);
  search.pictures = pictures;
  search.batch = std::clamp<int64_t>(pictures / 4, 4, kBatch);
  const bool is_anew = LearnsAnew(start, pictures);
  search.samples = is_anew ? 250'000 : 30'000;
  search.least_epochs = is_anew ? 20 : 5;
  search.most_epochs = is_anew ? 500 : 60;
  return search;
}

NewModel DeriveClassifier(const NewData& data, const NewOptions& options) {
  const std::vector<std::string> names = ClassNames(data);
  RefuseFewPictures(data, names);
  const NewPart& train = data.train();
  Sides sides = SidesOf(train, options.budget.size);
  std::optional<StartNet> start;
  if (options.from) {
    start = MakeStart(*options.from, options.from_word, options.name, std::ssize(names),
                      sides.is_small ? std::optional(sides.train) : std::nullopt);
  }
  if (start && !start->is_finer) sides.stored = 2 * start->train_side;
  const ColorFacts colors = train.facts->ColorsOf(train.pictures);
  const bool is_gray = colors.mean.size() == 1;
  const bool has_gray = std::ranges::any_of(train.pictures, [&](int64_t i) { return train.row(i).channels == 1; });
  Search search = SearchOf(data, options, start);
  Values values = CommonValues(data, options);
  AddColors(colors, values);
  const bool is_finer = start && start->is_finer;
  if (is_finer) {
    values["mean"] = Forced(start->colors, *start, has_gray, !is_gray);
    values["std"] = "";
    values["depth"] = StrCat(start->channels);
  }
  AddSides(sides, !(is_gray && sides.is_small), !is_finer && !is_gray && has_gray, values);
  AddTestBatches(data, 64, values);
  AddScratch(values);
  if (start) AddStart(*start, LearnsAnew(start, train.size()), has_gray, !is_gray, values);
  values["classes"] = StrCat(names.size());
  values["class_rows"] = ClassRows(data, names);
  values["batch"] = StrCat(search.batch);
  const int64_t side = start ? start->train_side : sides.train;
  const int64_t channels = start ? start->channels : std::ssize(colors.mean);
  search.shapes = {{values.at("input"), Shape{search.batch, channels, side, side}}, {"label", Shape{search.batch}}};
  const Recipe recipe = RecipeOf(sides, start);
  const NetChoice choice = ChooseNet(recipe, data, options, search, values);
  values["net_choice"] =
      start ? StrCat("That of ", Printable(start->word)) : StrCat("Width ", choice.width, ", ", choice.remark);
  values["summary"] =
      fmt::format("SGD with momentum 0.9, batch {}, decay {}, a line to {} and a cosine to 0 over {} epochs",
                  search.batch, values.at("decay"), values.at("base_lr"), choice.length.epochs);
  std::optional<std::string> head;
  if (start) head = AddHead(train.size(), choice, values);
  NewModel model =
      MakeModel(recipe, data, choice,
                fmt::format("{} classes: {}", names.size(), CountsText(names, train.facts->labels())), values);
  if (head) model.files["solver_head.prototxt"] = *head;
  model.files["labels.txt"] = Join(names, "\n") + "\n";
  if (start) model.copies.emplace_back(start->weights, values.at("start_file"));
  model.storage = PixelStorage(data, sides.stored);
  return model;
}

}  // namespace

NewTask ClassifyNewTask() {
  return {.name = "classify",
          .source = "FOLDER/CLASS/PICTURE, or FOLDER/train and FOLDER/val of such",
          .find = FindClassFolders,
          .number = NumberFolders,
          .derive = DeriveClassifier,
          .takes_start = true};
}

}  // namespace moka
