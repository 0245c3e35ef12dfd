// moka generate: what a trained generator makes of random numbers.
#include "tools/cli/command_line.h"
#include "tools/infer/tasks.h"
#include "tools/train/program_options.h"

namespace moka {
namespace {

int RunGenerateVerb(const Arguments& arguments) {
  const InferSource source = InferSourceOf(arguments);
  return GenerateTask().run(source, source.inputs, arguments);
}

}  // namespace

Verb GenerateVerb() {
  Verb verb;
  verb.name = "generate";
  verb.summary = "pictures of a trained generator";
  verb.usage = "RUN|MODEL|DEPLOY.prototxt [--flags]";
  verb.examples = {"moka generate runs/latest",
                   "moka generate models/dcgan_cifar10 --weights g.safetensors --count 100 --columns 10 --out grid.png",
                   "moka generate runs/latest --count 10000 --seed 2 --out fakes/"};
  verb.options = {{"model", "FILE", "deploy or training prototxt (Caffe's spelling)"},
                  {"weights", "FILES", ".safetensors, .caffemodel or .npz (default: a run's best, or the model's own)"},
                  {"runs", "FOLDER", "where runs lie (default runs)"},
                  {"seed", "N", "another seed, other pictures (default 1)"}};
  for (const OptionSpec& option : GenerateTask().options) verb.options.push_back(option);
  for (const OptionSpec& option : ProgramOptionSpecs()) {
    if (option.name != "recompute") verb.options.push_back(option);  // training's
  }
  verb.run = RunGenerateVerb;
  verb.takes_fields = TakenFields::kOfNet;
  return verb;
}

}  // namespace moka
