// moka infer: what a trained net makes of pictures and texts. The model's card says which task it was trained for.
#include <algorithm>
#include <array>
#include <string_view>

#include "core/error.h"
#include "core/text.h"
#include "tools/cli/command_line.h"
#include "tools/infer/tasks.h"
#include "tools/train/program_options.h"

namespace moka {
namespace {

// "task: DETECT or task: INSTANCES".
std::string TasksWith(const std::string& flag) {
  std::vector<std::string> names;
  for (const InferTask& task : AllInferTasks()) {
    const bool has_it = std::ranges::any_of(task.options, [&](const OptionSpec& o) { return o.name == flag; });
    if (has_it) names.push_back(StrCat("task: ", ModelCard::Task_Name(task.task)));
  }
  return Join(names, " or ");
}

int RunInfer(const Arguments& arguments) {
  const InferSource source = InferSourceOf(arguments);
  if (arguments.Has("text") && source.card.task() != ModelCard::TRANSLATE) {
    throw Error(ErrorKind::kUsage, {},
                StrCat("--text is for models that translate, and nothing in ", Printable(source.folder.string()),
                       " says that this one does"),
                "task: TRANSLATE in a model.prototxt beside the net");
  }
  const InferTask& task = InferTaskFor(source);
  if (task.shows_classes) arguments.WillRead({"labels"});
  return task.run(source, source.inputs, arguments);
}

}  // namespace

Verb InferVerb() {
  Verb verb;
  verb.name = "infer";
  verb.summary = "what a trained net makes of pictures, texts, stories and tables";
  verb.usage = "RUN|MODEL|DEPLOY.prototxt PICTURE|FOLDER|VIDEO... [--flags]";
  verb.examples = {"moka infer runs/latest digit.png",
                   "moka infer --model=deploy.prototxt --weights=net.caffemodel pictures/ --top 3",
                   "moka infer runs/latest pictures/ --annotate coco --out found",
                   "moka infer runs/latest --text letter.de --n-best 3", "moka infer runs/latest --story story.txt"};
  verb.options = {{"model", "FILE", "deploy or training prototxt; a run beside it gives its weights"},
                  {"weights", "FILES", ".safetensors, .caffemodel or .npz (default: a run's best, or the model's own)"},
                  {"runs", "FOLDER", ""},
                  {"mean", "VALUES",
                   "how pictures go in, over net and card: B,G,R or a file; --scale X, --resize HxW, --resize-short N"},
                  {"scale", "X", ""},
                  {"resize", "HxW", ""},
                  {"resize-short", "N", ""},
                  {"labels", "FILE", "class names, one a line (default: labels.txt beside the net)"},
                  {"batch", "N", "pictures a pass (default: as many as given, at most 16)"},
                  {"out", "FOLDER", "where results go (default: detections, segments, instances, annotations)", '\0',
                   "a model that draws: task: DETECT, SEGMENT or INSTANCES in its card; or --annotate"},
                  {"json", "", "print as JSON"}};
  for (const InferTask& task : AllInferTasks()) {
    for (const OptionSpec& option : task.options) {
      const bool is_there =
          std::ranges::any_of(verb.options, [&](const OptionSpec& o) { return o.name == option.name; });
      if (is_there) continue;  // tasks share some
      verb.options.push_back(option);
      verb.options.back().needs =
          StrCat(option.needs, option.needs.empty() ? "" : " and ", "a model whose card says ", TasksWith(option.name));
    }
  }
  for (const OptionSpec& option : ProgramOptionSpecs()) {
    if (option.name != "recompute") verb.options.push_back(option);  // training's
  }
  // Help stays within a screen: these are in that of `moka test` and `moka generate`.
  constexpr std::array<std::string_view, 11> kElsewhere = {"columns",      "count",         "dry-run", "disable-kernel",
                                                           "disable-pass", "dump-after",    "explain", "kernels",
                                                           "pin",          "prefer-kernel", "trace"};
  for (OptionSpec& option : verb.options) {
    if (std::ranges::find(kElsewhere, option.name) != kElsewhere.end()) option.doc.clear();
  }
  verb.run = RunInfer;
  verb.takes_fields = TakenFields::kOfNet;
  return verb;
}

}  // namespace moka
