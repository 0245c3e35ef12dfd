// Opens the real data where it can, guesses by the fields where it cannot, and says which.
#include "tools/nets/net_source.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/pipeline/open_pipeline.h"
#include "layers/net/layer.h"
#include "layers/shapes/data_guess.h"
#include "proto/nets/filter.h"
#include "proto/nets/model_card.h"
#include "proto/text/places.h"
#include "tools/nets/checkpoint_source.h"
#include "tools/nets/models_folder.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// "data=1,3,224,224".
std::pair<std::string, Shape> ParseShape(const std::string& text) {
  const size_t equals = text.find('=');
  std::vector<int64_t> dims;
  if (equals != std::string::npos) {
    for (const std::string& part : Split(text.substr(equals + 1), ',')) {
      int64_t dim = 0;
      const auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), dim);
      if (code != std::errc() || end != part.data() + part.size() || dim < 1) dims.assign(Shape::kMaxRank + 1, 0);
      dims.push_back(dim);
    }
  }
  if (equals == 0 || dims.empty() || dims.size() > Shape::kMaxRank) {
    throw Error(ErrorKind::kUsage,
                StrCat("--shape wants TOP=N,C,H,W with whole numbers from 1, found \"", Printable(text), "\""));
  }
  return {text.substr(0, equals), Shape(dims)};
}

}  // namespace

ZooCheck MadeUpDataOf(const LayerParameter& layer) {
  const std::string file = PlaceOf(layer).file;
  return file.empty() ? ZooCheck() : ModelCardOf(fs::path(file).parent_path()).check();
}

std::map<std::string, Shape> ShapesOfCard(const LayerParameter& layer, int64_t batch) {
  std::map<std::string, Shape> shapes;
  const ZooCheck made_up = MadeUpDataOf(layer);
  for (const ZooTop& top : made_up.top()) {
    if (top.dim_size() == 0 || std::ranges::find(layer.top(), top.name()) == layer.top().end()) continue;
    std::vector<int64_t> dims;
    for (const int64_t dim : top.dim()) dims.push_back(dim == 0 ? batch : dim);
    shapes.emplace(top.name(), Shape(dims));
  }
  return shapes;
}

NetParameter ReadNetInState(const fs::path& file, const NetReadOptions& read, const NetState& given) {
  NetParameter net = ReadNet(file, read);
  WarnOfUnknownStages(net, given, "--stage");
  WarnOfUselessLevel(net, given, "--level");
  AddState(given, *net.mutable_state());
  return net;
}

fs::path FindInferenceNet(const std::string& config) {
  std::error_code code;
  const fs::path folder = PathOfWord(config);
  fs::path trained = folder / "train_val.prototxt";
  const bool has_deploy =
      fs::exists(folder / "deploy.prototxt", code) || fs::exists(folder / "config" / "deploy.prototxt", code);
  if (has_deploy || !fs::is_regular_file(trained, code)) return FindConfig(config, "deploy.prototxt");
  LogWarning(StrCat(Printable(config), " has no deploy.prototxt: its training net's test phase is taken, losses and ",
                    "measures with it"));
  return trained;
}

std::map<std::string, Shape> ParseShapes(const std::string& list) {
  std::map<std::string, Shape> shapes;
  for (const std::string& text : Split(list, ';')) {
    if (Trim(text).empty()) continue;
    auto [top, shape] = ParseShape(std::string(Trim(text)));
    if (!shapes.emplace(top, shape).second)
      throw Error(ErrorKind::kUsage, StrCat("--shape gives ", Printable(top), " twice"));
  }
  return shapes;
}

void AddTops(const NetParameter& net, std::set<std::string>& tops) {
  for (const LayerParameter& layer : net.layer()) tops.insert(layer.top().begin(), layer.top().end());
}

void RefuseUnknownTops(const std::map<std::string, Shape>& shapes, const std::set<std::string>& tops) {
  for (const auto& [top, shape] : shapes) {
    if (tops.contains(top)) continue;
    throw Error(ErrorKind::kUsage, {}, StrCat("--shape: no layer has a top \"", Printable(top), "\""),
                DidYouMean(top, {tops.begin(), tops.end()}));
  }
}

DataTypes GuessDataTypes(std::map<std::string, Shape> shapes) {
  return [shapes = std::move(shapes)](const LayerParameter& layer) {
    GuessedTypes guess = GuessTypes(layer);
    if (guess.types.empty()) {
      const TensorType unknown{DType::kFloat32, Shape{}, {}};
      guess.types.assign(static_cast<size_t>(layer.top_size()), unknown);
    }
    for (int i = 0; i < layer.top_size(); ++i) {
      TensorType& type = guess.types[static_cast<size_t>(i)];
      const auto given = shapes.find(layer.top(i));
      if (given != shapes.end()) type.shape = given->second;
      if (type.shape.rank() > 0) continue;
      throw ErrorAt(layer, {},
                    StrCat("layer \"", layer.name(), "\": the shape of top \"", layer.top(i),
                           "\" does not follow from the fields"),
                    StrCat("give it with --shape '", layer.top(i), "=N,C,H,W'"));
    }
    return guess.types;
  };
}

DataTypes ProbeDataTypes(Phase phase, const fs::path& base_folder, std::map<std::string, Shape> shapes) {
  return [phase, base_folder, shapes = std::move(shapes)](const LayerParameter& layer) {
    const auto is_given = [&](const std::string& top) { return shapes.contains(top); };
    if (!std::ranges::all_of(layer.top(), is_given) && IsPipelineLayer(layer.type())) {
      PipelineOptions options;
      options.phase = phase;
      options.base_folder = base_folder;
      try {
        return OpenPipeline(layer, options)->types();
      } catch (const Error& error) {
        const GuessedTypes guess = GuessTypes(layer);
        if (error.kind() != ErrorKind::kNoInput || guess.types.empty()) throw;
        const int64_t batch = guess.types[0].shape.rank() > 0 ? guess.types[0].shape[0] : 1;
        if (std::map<std::string, Shape> known = ShapesOfCard(layer, batch); !known.empty()) {
          LogWarning(StrCat("layer \"", layer.name(), "\": ", error.text(), "; going on without it, taking the shapes ",
                            "that the model's card gives (--shape sets others)"));
          for (const auto& [top, shape] : shapes) known.insert_or_assign(top, shape);
          return GuessDataTypes(known)(layer);
        }
        LogWarning(StrCat("layer \"", layer.name(), "\": ", error.text(), "; going on without it",
                          guess.assumed.empty() ? "" : StrCat(", taking ", guess.assumed), " (--shape sets shapes)"));
      }
    }
    if (TraitsOf(layer).runs_python && !std::ranges::all_of(layer.top(), is_given)) {
      LogWarning(StrCat(PlaceOf(layer).ToString(), ": layer \"", layer.name(), "\": Python layer \"",
                        layer.python_param().module(), ".", layer.python_param().layer(),
                        "\" is not built in; the shapes of its tops are guesses (--shape sets shapes)"));
    }
    return GuessDataTypes(shapes)(layer);
  };
}

namespace {

// The names that a word which names nothing may have meant: runs, models, and what lies beside the path that it is. A
// folder of a million pictures is not read to its end for that.
std::vector<std::string> NamesBeside(const fs::path& path, const fs::path& runs) {
  constexpr size_t kMost = 10'000;
  std::vector<std::string> names = RunNames(runs);
  std::error_code code;
  const fs::path folder = path.parent_path();
  fs::directory_iterator each(folder.empty() ? fs::path(".") : folder, code);
  for (; !code && each != fs::directory_iterator() && names.size() < kMost; each.increment(code))
    names.push_back(Printable((folder / each->path().filename()).string()));
  if (const std::optional<fs::path> models = FindModelsFolder()) {
    for (std::string& name : ModelNames(*models)) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

fs::path FindConfig(const std::string& config, std::string_view file, const fs::path& runs) {
  std::error_code code;
  fs::path folder = config;
  if (!fs::is_directory(config, code)) {
    if (fs::exists(config, code)) return config;
    const std::optional<NamedRun> run = FindNamedRun(config, runs);
    const std::optional<fs::path> model = run ? std::nullopt : FindModel(config);
    if (!run && !model) {
      const std::string name = config.substr(0, config.rfind('@'));
      throw Error(ErrorKind::kNoInput, {}, StrCat("no file, folder or run ", Printable(config), InRuns(runs)),
                  DidYouMean(name, NamesBeside(name, runs)));
    }
    folder = run ? run->folder : *model;
    if (fs::is_regular_file(folder, code)) return folder;
  }
  for (const fs::path& candidate : {folder / file, folder / "config" / file}) {
    if (fs::exists(candidate, code)) return candidate;
  }
  // A run has the net that it trained, which is for all phases, or one to train and one to test.
  if (IsRun(folder) && file != "solver.prototxt") {
    std::array<const char*, 3> own = {"net.prototxt", "test_net_0.prototxt", "train_net.prototxt"};
    if (file == "train_val.prototxt") std::swap(own[1], own[2]);
    for (const char* name : own) {
      if (fs::exists(folder / "config" / name, code)) return folder / "config" / name;
    }
  }
  throw Error(ErrorKind::kNoInput, StrCat(Printable(config), " holds no ", file, " (looked there and in its config/)"));
}

}  // namespace moka
