// The search goes from the widest net down and stops at the first that fits, so that most machines compile one or two.
#include "tools/new/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <limits>
#include <thread>

#include "core/error.h"
#include "core/log.h"
#include "core/quiet_scope.h"
#include "core/size.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "proto/nets/filter.h"
#include "proto/nets/net_file.h"
#include "tools/measure/model_bench.h"
#include "tools/measure/timed_net.h"

namespace moka {
namespace {

constexpr int64_t kWarmUpSteps = 2;
constexpr int64_t kStepsOfTrial = 3;
constexpr int64_t kLeastTrials = 3;
constexpr int64_t kMostTrials = 8;
constexpr std::chrono::milliseconds kPause(30);
constexpr double kMsPerMinute = 60'000;

// Milliseconds of processor time that this process has taken.
double ProcessorMs() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

// The fastest step of several stretches of a training on made-up values, after the first ones. What other programs take
// of the processors meanwhile says little of what they will take then: stretches go on, with pauses in which another
// program may come to its end, until one brings nothing new, and a step counts as no more than its own processor time
// on all threads, and a tenth for their waiting for each other.
StepTime StepTimeOf(const std::string& text, const Search& search, const NewOptions& options) {
  constexpr double kWaiting = 1.1;
  constexpr double kNothingNew = 0.98;
  const QuietScope quiet;  // its data is not there yet
  const NetParameter whole = NetFromText(text, "train_val.prototxt");
  std::vector<NetParameter> nets;
  if (search.turns.empty()) nets.push_back(FilterNet(whole, TRAIN));
  for (const TrainTurn& turn : search.turns) {
    NetState state;
    state.set_phase(TRAIN);
    *state.mutable_stage() = turn.stage();
    nets.push_back(FilterNet(whole, state));
  }
  TimedOptions timed;
  timed.shapes = search.shapes;
  timed.turns = search.turns;
  const std::unique_ptr<TimedNet> program = MakeTimedNet(nets, TRAIN, options.compile, timed);
  RunSteps(*program, kWarmUpSteps);
  StepTime fastest{.ms = std::numeric_limits<double>::infinity()};
  while (fastest.trials < kMostTrials) {
    const double before_trial = fastest.ms;
    if (fastest.trials > 0) std::this_thread::sleep_for(kPause);
    for (int64_t i = 0; i < kStepsOfTrial; ++i) {
      const double before = ProcessorMs();
      const double wall_ms = RunSteps(*program, 1)[0];
      const double own_ms = (ProcessorMs() - before) / ThreadCount() * kWaiting;
      const bool is_of_cpus = options.compile.device.is_cpu() && own_ms < wall_ms;
      const double ms = is_of_cpus ? own_ms : wall_ms;
      ++fastest.steps;
      if (ms >= fastest.ms) continue;
      fastest.ms = ms;
      fastest.is_of_cpus = is_of_cpus;
    }
    ++fastest.trials;
    if (fastest.trials >= kLeastTrials && fastest.ms > kNothingNew * before_trial) break;
  }
  return fastest;
}

Length LengthOf(int64_t epochs, const Search& search) {
  return {epochs, std::max<int64_t>(1, epochs * search.pictures / search.batch), search.batch};
}

}  // namespace

std::string SectionOf(std::string_view text, std::string_view name) {
  std::string section;
  bool is_in = false;
  bool is_found = false;
  for (const std::string& line : Split(text, '\n')) {
    if (line.starts_with("#= ")) {
      is_in = line.substr(3) == name;
      is_found = is_found || is_in;
    } else if (is_in) {
      section += line + "\n";
    }
  }
  Require(is_found, "a template has the section that is asked for");
  while (section.ends_with("\n\n")) section.pop_back();
  return section;
}

std::string SectionsOf(std::string_view text, const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) {
    joined += SectionOf(text, name);
    if (name == "head" || name == "data" || name == "held_out" || name == "columns" || name == "input") joined += "\n";
  }
  return joined;
}

std::string Filled(std::string_view text, const Values& values) {
  std::string filled;
  for (size_t at = 0; at < text.size();) {
    const size_t mark = text.find('@', at);
    if (mark == std::string_view::npos) return filled.append(text.substr(at));
    const size_t end = text.find('@', mark + 1);
    Require(end != std::string_view::npos, "a place in a template ends");
    const auto found = values.find(text.substr(mark + 1, end - mark - 1));
    if (found == values.end()) ThrowBrokenPromise(StrCat("a value for ", text.substr(mark, end - mark + 1)));
    filled.append(text.substr(at, mark - at)).append(found->second);
    at = end + 1;
  }
  return filled;
}

std::string Repeated(std::string_view field, const std::vector<double>& values) {
  std::vector<std::string> parts;
  for (const double value : values) parts.push_back(StrCat(field, ": ", Rounded(value, 1)));
  return Join(parts, " ");
}

std::string Rounded(double value, int digits) {
  std::string text = fmt::format("{:.{}f}", value, digits);
  if (text.find('.') == std::string::npos) return text;
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

int64_t TestBatch(int64_t pictures, int64_t most) {
  if (pictures <= most) return pictures;
  int64_t best = most;
  for (int64_t batch = most; batch >= std::max<int64_t>(1, most / 4); --batch) {
    const auto twice = [&](int64_t b) { return (CeilDiv(pictures, b) * b - pictures).value(); };
    if (twice(batch) < twice(best)) best = batch;
  }
  return best;
}

NetChoice Choose(const Search& search, const NewOptions& options) {
  const int64_t wanted =
      std::clamp(search.samples / std::max<int64_t>(1, search.pictures), search.least_epochs, search.most_epochs);
  NetChoice choice;
  for (const int64_t width : search.widths) {
    choice.width = width;
    choice.step = StepTimeOf(search.train_net(width), search, options);
    const double epoch_ms = choice.step.ms * static_cast<double>(search.pictures) / static_cast<double>(search.batch);
    const auto fitting = static_cast<int64_t>(options.budget.minutes * kMsPerMinute / std::max(1e-3, epoch_ms));
    LogInfo(fmt::format("{}: {} ms a step of {} here, {:.1f} minutes for {} epochs",
                        width > 0 ? StrCat("width ", width) : "the net", MsText(choice.step.ms), search.batch,
                        epoch_ms * static_cast<double>(wanted) / kMsPerMinute, wanted));
    const bool fits = fitting >= wanted;
    const bool nearly_fits = 2 * fitting >= wanted;
    if (!nearly_fits && width != search.widths.back()) continue;
    const int64_t epochs = std::clamp(fitting, std::max<int64_t>(1, wanted / 4), wanted);
    choice.length = LengthOf(epochs, search);
    choice.minutes = choice.step.ms * static_cast<double>(choice.length.iterations) / kMsPerMinute;
    const std::string which = search.widths.size() == 1        ? "the one to start from"
                              : width == search.widths.front() ? StrCat("the widest for so many ", search.items)
                              : nearly_fits                    ? "the widest that fits"
                                                               : "the narrowest";
    choice.remark = StrCat(which, fits ? "" : fmt::format(", for {} epochs in place of {}", epochs, wanted),
                           fmt::format("; {:g} minutes are allowed", options.budget.minutes));
    break;
  }
  return choice;
}

std::string TrainNetText(const Recipe& recipe, const NewData& data, Values values, int64_t width) {
  recipe.set_width(width, values);
  std::vector<std::string> sections = recipe.front;
  sections.emplace_back("data");
  if (data.parts.size() > 2) sections.emplace_back("held_out");
  sections.insert(sections.end(), recipe.columns.begin(), recipe.columns.end());
  sections.insert(sections.end(), recipe.net.begin(), recipe.net.end());
  sections.emplace_back("losses");
  return Filled(SectionsOf(recipe.text, sections), values);
}

NetChoice ChooseNet(const Recipe& recipe, const NewData& data, const NewOptions& options, Search search,
                    Values& values) {
  search.train_net = [&](int64_t width) { return TrainNetText(recipe, data, values, width); };
  NetChoice choice = Choose(search, options);
  recipe.set_width(choice.width, values);
  AddLength(choice, search, values);
  return choice;
}

NewModel MakeModel(const Recipe& recipe, const NewData& data, const NetChoice& choice, const std::string& what,
                   const Values& values) {
  std::vector<std::string> deploy = recipe.front;
  deploy.emplace_back("input");
  deploy.insert(deploy.end(), recipe.net.begin(), recipe.net.end());
  deploy.insert(deploy.end(), recipe.behind.begin(), recipe.behind.end());
  NewModel model;
  model.files = {{"train_val.prototxt", TrainNetText(recipe, data, values, choice.width)},
                 {"solver.prototxt", Filled(SectionOf(recipe.text, "solver"), values)},
                 {"model.prototxt", Filled(SectionOf(recipe.text, "card"), values)},
                 {"README.md", Filled(SectionOf(recipe.text, "readme"), values)}};
  if (recipe.has_deploy) model.files["deploy.prototxt"] = Filled(SectionsOf(recipe.text, deploy), values);
  const std::string width = choice.width > 0 ? fmt::format("width {}", choice.width) : "the given one";
  model.lines = {what, PartsText(data),
                 fmt::format("net: {}, {} ms a step of {} {} here ({})", width, MsText(choice.step.ms),
                             choice.length.batch, data.items, choice.remark),
                 fmt::format("training: {} epochs, {} steps, about {} here", choice.length.epochs,
                             choice.length.iterations, MinutesText(choice.minutes))};
  return model;
}

}  // namespace moka
