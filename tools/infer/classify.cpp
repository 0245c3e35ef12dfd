// Classification: pictures in, ranked classes out.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "core/trace.h"
#include "tools/infer/picture_net.h"
#include "tools/infer/tasks.h"
#include "tools/program_options.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

struct RankedClass {
  int64_t label = 0;
  std::string name;
  double score = 0;
};

// The best classes of a picture, best first. `scores` is [N,classes,...].
std::vector<RankedClass> RankClasses(const Tensor& scores, int64_t slot, int64_t top, const InferSource& source) {
  const int64_t classes = scores.shape().Count(1, scores.shape().rank());
  const std::span<const float> of_slot =
      scores.as<const float>().subspan(static_cast<size_t>(slot * classes), static_cast<size_t>(classes));
  std::vector<int64_t> order(static_cast<size_t>(classes));
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto best = static_cast<std::ptrdiff_t>(std::min(top, classes));
  std::partial_sort(order.begin(), order.begin() + best, order.end(), [&](int64_t a, int64_t b) {
    const float sa = of_slot[static_cast<size_t>(a)];
    const float sb = of_slot[static_cast<size_t>(b)];
    return sa != sb ? sa > sb : a < b;
  });
  std::vector<RankedClass> predictions;
  for (std::ptrdiff_t i = 0; i < best; ++i) {
    const int64_t label = order[static_cast<size_t>(i)];
    predictions.push_back({label, NameOf(source, label), static_cast<double>(of_slot[static_cast<size_t>(label)])});
  }
  return predictions;
}

void PrintClasses(bool as_json, const std::vector<fs::path>& files,
                  const std::vector<std::vector<RankedClass>>& results) {
  if (as_json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (size_t i = 0; i < files.size(); ++i) {
      nlohmann::ordered_json top = nlohmann::ordered_json::array();
      for (const RankedClass& p : results[i])
        top.push_back({{"label", p.name}, {"index", p.label}, {"score", p.score}});
      json.push_back({{"file", files[i].string()}, {"top", top}});
    }
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return;
  }
  for (size_t i = 0; i < files.size(); ++i) {
    fmt::print("{}\n", Printable(files[i].string()));
    for (const RankedClass& p : results[i]) fmt::print("  {:.4f} - \"{}\"\n", p.score, Printable(p.name));
  }
}

int RunClassify(const InferSource& source, const std::vector<std::string>& inputs, const Arguments& arguments) {
  if (inputs.empty() && !LooksInside(arguments))
    throw Error(ErrorKind::kUsage, "missing argument: at least one picture or folder of pictures");
  const std::vector<fs::path> files = PicturesOf(inputs);
  constexpr int64_t kMostByDefault = 16;
  const auto given = static_cast<int64_t>(files.size());
  const int64_t batch = arguments.Int("batch", given == 0 ? kMostByDefault : std::min(kMostByDefault, given), 1, 65536);
  const int64_t top = arguments.Int("top", 5, 1, INT64_MAX);
  PictureNet net(source, batch);
  const Tensor scores = net.output(net.outputs().back());
  if (scores.shape().rank() < 2 || scores.shape()[0] != batch) {
    throw Error(ErrorKind::kConfig,
                StrCat("output \"", net.outputs().back(), "\" is ", scores.shape().ToString(), ", not [N,classes]"));
  }
  if (LookInside(arguments, "infer", net.program())) return 0;
  BeginTrace(arguments);
  const int64_t begin = NowMicros();
  std::vector<std::vector<RankedClass>> results;
  for (int64_t first = 0; first < given; first += batch) {
    const int64_t count = std::min(given - first, batch);
    for (int64_t i = 0; i < count; ++i) net.Load(files[static_cast<size_t>(first + i)], i);
    net.Run();
    for (int64_t i = 0; i < count; ++i) results.push_back(RankClasses(scores, i, top, source));
  }
  const double ms = static_cast<double>(NowMicros() - begin) * 1e-3;
  EndTrace(arguments);
  PrintClasses(arguments.Has("json"), files, results);
  LogInfo(fmt::format("{} image{}, {:.1f} ms", files.size(), files.size() == 1 ? "" : "s", ms));
  return 0;
}

}  // namespace

InferTask ClassifyTask() {
  return {.task = ModelCard::CLASSIFY,
          .run = RunClassify,
          .options = {{"top", "N", "how many classes a picture (default 5)"}}};
}

}  // namespace moka
