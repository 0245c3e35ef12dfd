// moka infer: what a trained net makes of pictures and texts. The model's card says which task it was trained for.
#include "core/error.h"
#include "tools/infer/tasks.h"
#include "tools/program_options.h"
#include "tools/verbs/verbs.h"

namespace moka {
namespace {

int RunInfer(const Arguments& arguments) {
  const InferSource source = InferSourceOf(arguments);
  std::vector<std::string> inputs = arguments.positionals;
  if (!arguments.Has("model")) inputs.erase(inputs.begin());
  return InferTaskFor(source).run(source, inputs, arguments);
}

}  // namespace

Verb InferVerb() {
  Verb verb;
  verb.name = "infer";
  verb.summary = "what a trained net makes of pictures";
  verb.usage = "RUN|MODEL|DEPLOY.prototxt PICTURE|FOLDER... [--flags]";
  verb.examples = {"moka infer runs/latest digit.png",
                   "moka infer models/lenet --weights lenet.caffemodel digits/ --top 3",
                   "moka infer --model=deploy.prototxt --weights=net.caffemodel cat.jpg --json",
                   "moka infer runs/latest --dry-run --batch 1"};
  verb.options = {{"model", "FILE", "deploy or training prototxt (Caffe's spelling)"},
                  {"weights", "FILES", ".safetensors or .caffemodel (default: a run's best checkpoint)"},
                  {"labels", "FILE", "class names, one a line (default: labels.txt beside the net)"},
                  {"batch", "N", "pictures a pass (default: as many as given, at most 16)"},
                  {"out", "FOLDER", "where pictures of results go (default: detections, segments, instances)"},
                  {"json", "", "print as JSON"}};
  for (const InferTask& task : AllInferTasks()) {
    verb.options.insert(verb.options.end(), task.options.begin(), task.options.end());
  }
  for (const OptionSpec& option : ProgramOptionSpecs()) {
    if (option.name != "recompute") verb.options.push_back(option);  // training's
  }
  verb.run = RunInfer;
  return verb;
}

}  // namespace moka
