// Two tables of verbs and flags of other tools with the words that do the same here, for hints only.
#include "tools/cli/other_verbs.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/text.h"
#include "proto/text/other_words.h"

namespace moka {
namespace {

using Word = std::pair<std::string_view, std::string_view>;

constexpr std::array kVerbMeanings = {
    Word{"predict", "moka infer"},
    Word{"detect", "moka infer"},
    Word{"segment", "moka infer"},
    Word{"classify", "moka infer"},
    Word{"classification", "moka infer"},
    Word{"inference", "moka infer"},
    Word{"run", "moka infer, or moka train"},
    Word{"fit", "moka train"},
    Word{"finetune", "moka train SOLVER --weights FILE"},
    Word{"resume", "moka train --resume"},
    Word{"val", "moka test"},
    Word{"validate", "moka test"},
    Word{"eval", "moka test"},
    Word{"evaluate", "moka test"},
    Word{"score", "moka test"},
    Word{"onnx", "moka export RUN --to onnx"},
    Word{"convert", "moka model convert"},
    Word{"summary", "moka model show"},
    Word{"info", "moka model show, or moka device for this machine"},
    Word{"show", "moka model show"},
    Word{"plot", "moka model draw; a run draws its curves itself, in plots/"},
    Word{"draw", "moka model draw"},
    Word{"create", "moka data import"},
    Word{"dataset", "moka data"},
    Word{"models", "moka zoo list"},
    Word{"download", "moka zoo list: models are trained here, tools/data/get fetches data"},
    Word{"benchmark", "moka bench"},
    Word{"profile", "moka time"},
    Word{"caffe", "moka by itself: moka train, moka test, moka time"},
    Word{"checks", "moka device"},
    Word{"device_query", "moka device"},
    Word{"devices", "moka device"},
    Word{"gpus", "moka device"},
    Word{"submit", "moka launch"},
    Word{"mpirun", "moka launch -n N -- train ..."},
    Word{"quantize", "moka quantise"},
    Word{"upgrade", "moka upgrade_net_proto_text"},
    Word{"demo", "moka quickstart"},
    Word{"example", "moka quickstart"},
};

constexpr std::array kFlagMeanings = {
    Word{"config", "the word after the verb: moka train SOLVER|FOLDER"},
    Word{"cfg", "the word after the verb: moka train SOLVER|FOLDER"},
    Word{"output", "--out, where a verb writes; a training writes runs/NAME-NNNN (--run, --runs)"},
    Word{"output-dir", "--out, where a verb writes; a training writes runs/NAME-NNNN (--run, --runs)"},
    Word{"save-dir", "--out, where a verb writes; a training writes runs/NAME-NNNN (--run, --runs)"},
    Word{"cpu", "--device cpu"},
    Word{"cuda", "--device gpu:0"},
    Word{"no-cuda", "--device cpu"},
    Word{"source", "the word after the net: moka infer RUN PICTURE"},
    Word{"input", "the word after the net: moka infer RUN PICTURE"},
    Word{"conf", "--score"},
    Word{"topk", "--top"},
    Word{"nproc-per-node", "--ranks N, or moka launch -n N -- train ..."},
    Word{"world-size", "--ranks N, or moka launch -n N -- train ..."},
    Word{"np", "moka launch -n N -- train ..., or mpirun -np N moka train ..."},
    Word{"nodes", "moka launch --hosts A:2,B:2 -- train ..."},
    Word{"max-epochs", "an override: max_epochs=N"},
    Word{"max-iter", "an override: max_iter=N, or --iterations N"},
    Word{"logtostderr", "always so: narration goes to stderr"},
    Word{"alsologtostderr", "always so: narration goes to stderr and to the run's log.txt"},
    Word{"stderrthreshold", "--quiet: only warnings and errors on stderr"},
    Word{"minloglevel", "--quiet: only warnings and errors on stderr"},
    Word{"log-dir", "the run's folder, which has log.txt (--runs FOLDER)"},
    Word{"tensorboard", "always on: the run's events/"},
    Word{"wandb", "not there; the run has metrics.jsonl and TensorBoard's events/"},
};

template <class Words>
std::string_view MeaningIn(const Words& words, std::string_view name) {
  const auto it = std::ranges::find(words, name, &Word::first);
  return it == words.end() ? std::string_view() : it->second;
}

}  // namespace

std::string OtherToolsVerb(std::string_view name) {
  const std::string_view here = MeaningIn(kVerbMeanings, name);
  return here.empty() ? std::string() : StrCat("other tools' \"", name, "\" is here ", here);
}

std::string OtherToolsFlag(std::string_view name, bool sets_solver) {
  std::string flag(name);
  std::ranges::replace(flag, '_', '-');
  const std::string_view here = MeaningIn(kFlagMeanings, flag);
  if (!here.empty()) return StrCat("other tools' --", name, " is here ", here);
  return sets_solver ? OtherToolsField(name) : std::string();
}

}  // namespace moka
