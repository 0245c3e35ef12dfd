// moka new generate: a folder of pictures to a DCGAN that makes such, by the recipe of models/dcgan_cifar10.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "proto/moka.pb.h"
#include "tools/infer/source.h"
#include "tools/new/layouts.h"
#include "tools/new/recipe.h"
#include "tools/new/templates.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kFewestPictures = 64;  // of the training
constexpr int64_t kBatch = 64;
constexpr int64_t kFirstSide = 4;  // of the generator's first map

// All pictures of a folder and of the folders in it, as a list that lies in `made` for the import.
std::vector<PartSource> FindPictures(const std::string& source, const fs::path& made) {
  std::error_code ignored;
  if (!fs::exists(source, ignored)) {
    if (source.find(':') != std::string::npos) return {{"train", source}};
    throw Error(ErrorKind::kNoInput, StrCat(Printable(source), " does not exist"));
  }
  if (!fs::is_directory(source, ignored)) {
    throw Error(ErrorKind::kBadData, StrCat(Printable(source), " is no folder of pictures"));
  }
  std::string list;
  for (const fs::path& file : PicturesBelow(source)) list += StrCat(fs::relative(file, source).string(), " 0\n");
  PlaceFile(made / kMadeNames, list);
  return {{"train", StrCat("list:", (made / kMadeNames).string(), ",", source)}};
}

// Widths from the discriminator's first map on; each map of half the side has twice as many channels, up to 4x4.
void SetWidth(int64_t width, Values& values) {
  int64_t maps = 1;
  for (int64_t side = std::stoll(values.at("side")) / 2; side > kFirstSide; side /= 2) ++maps;
  AddWidths(width, 1, values);
  std::string ups;
  std::string downs;
  for (int64_t map = 2; map <= maps; ++map) {
    ups += fmt::format(
        "layer {{ name: \"{0}\" type: \"Block\" bottom: \"g{1}\" top: \"g{0}\" block_param {{ block: \"up\" set: "
        "\"outputs={2}\" }} }}\n",
        map, map - 1, width << (maps - map));
    downs += fmt::format(
        "  layer {{\n    name: \"d_map{0}${{id}}\" type: \"Block\" bottom: \"d{1}${{id}}\" top: \"d{0}${{id}}\"\n    "
        "block_param {{ block: \"down\" set: \"n={0}\" set: \"id=${{id}}\" set: \"outputs={2}\" }}\n  }}\n",
        map, map - 1, width << (map - 1));
  }
  const int64_t first = width << (maps - 1);
  values["ups"] = ups;
  values["downs"] = downs;
  values["maps"] = StrCat(maps);
  values["g1"] = StrCat(first);
  values["g_fc"] = StrCat(first * kFirstSide * kFirstSide);
}

NewModel DeriveGenerator(const NewData& data, const NewOptions& options) {
  const NewPart& train = data.train();
  if (train.size() < kFewestPictures) {
    throw Error(ErrorKind::kBadData, {},
                StrCat("only ", train.size(), " pictures to train on, expected ", kFewestPictures, " or more"),
                "add pictures: some thousands are wanted");
  }
  constexpr int64_t kSmallSide = 32;
  constexpr int64_t kLargeSide = 64;
  std::vector<double> shorts;
  for (const int64_t i : train.pictures)
    shorts.push_back(static_cast<double>(std::min(train.row(i).width, train.row(i).height)));
  const double median = Quantile(shorts, 0.5);
  const bool is_large = options.budget.size == NewSize::kLarge && median >= static_cast<double>(kLargeSide);
  const int64_t side = is_large ? kLargeSide : kSmallSide;
  Values values = CommonValues(data, options);
  AddColors(train.facts->ColorsOf(train.pictures), values);
  AddInputSize({side, side, 1}, train, values);
  values["side"] = StrCat(side);
  values["size_words"] =
      fmt::format("{0}x{0} pixels{1}: half of the pictures have a shorter side of {2:.0f} pixels or less.", side,
                  is_large ? "" : ", which --size large and larger pictures make 64", median);
  values["batch"] = StrCat(kBatch);
  Search search;
  search.widths =
      options.budget.size == NewSize::kSmall ? std::vector<int64_t>{32, 16} : std::vector<int64_t>{64, 32, 16};
  search.pictures = train.size();
  search.batch = kBatch;
  search.samples = 750'000;
  search.least_epochs = 5;
  search.most_epochs = 300;
  search.shapes = {{"data", Shape{kBatch, std::stoll(values.at("depth")), side, side}}, {"label", Shape{kBatch}}};
  for (const auto& [stage, layers] : {std::pair("discriminator", "d_*"), std::pair("generator", "g_*")}) {
    TrainTurn& turn = search.turns.emplace_back();
    turn.set_name(stage);
    turn.add_stage(stage);
    turn.add_train(layers);
  }
  const Recipe recipe{.text = GenerateTemplate(),
                      .front = {"head", "blocks"},
                      .net = {"body"},
                      .set_width = SetWidth,
                      .has_deploy = false};
  const NetChoice choice = ChooseNet(recipe, data, options, search, values);
  NewModel model = MakeModel(recipe, data, choice, fmt::format("pictures of {0}x{0} pixels", side), values);
  model.storage = PixelStorage(data, 2 * side);
  return model;
}

}  // namespace

NewTask GenerateNewTask() {
  return {.name = "generate",
          .source = "a folder of pictures, in folders or not",
          .find = FindPictures,
          .derive = DeriveGenerator};
}

}  // namespace moka
