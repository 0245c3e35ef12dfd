// moka test: a trained net over its test data.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "core/log.h"
#include "core/size.h"
#include "core/text.h"
#include "core/trace.h"
#include "optim/run/report.h"
#include "optim/step/test_net.h"
#include "proto/nets/filter.h"
#include "proto/nets/model_card.h"
#include "proto/nets/net_file.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/cli/progress.h"
#include "tools/infer/tasks.h"
#include "tools/measure/auto_precision.h"
#include "tools/measure/calibration.h"
#include "tools/nets/test_source.h"
#include "tools/train/overrides.h"
#include "tools/train/program_options.h"
#include "tools/train/train_data_checks.h"
#include "tools/train/train_setup.h"

namespace moka {
namespace {

void PrintResults(const std::vector<OutputValue>& means, double loss, bool with_classes) {
  Print("Loss: {}\n", ToText(static_cast<double>(static_cast<float>(loss))));
  for (const OutputValue& output : means) {
    if (with_classes) {
      for (const std::string& line : ClassLines(output)) Print("{}\n", line);
    }
    Print("{} = {}{}\n", output.name, ToText(static_cast<double>(static_cast<float>(output.value))),
          output.loss_weight != 0
              ? fmt::format(" (* {:g} = {:g} loss)", output.loss_weight, output.loss_weight * output.value)
              : "");
  }
}

PrecisionRule RuleOf(const Arguments& arguments, const SolverParameter& solver) {
  if (!arguments.Has("ap-version")) return PrecisionRuleNamed(solver.ap_version());
  return ValueOfFlag("ap-version", [&] { return PrecisionRuleNamed(arguments.Get("ap-version")); });
}

// The flags of evaluations that this net does not make.
void RefuseWithoutEvaluation(const Arguments& arguments, const TestNet& net) {
  const auto refuse = [](std::string_view flag, std::string_view needs) {
    throw Error(ErrorKind::kUsage, {}, StrCat("--", flag, " has no use here: the net has no ", needs), "leave it out");
  };
  if (arguments.Has("ap-version") && net.DetectionOutputs().empty())
    refuse("ap-version", "DetectionEvaluate layer whose top is an output");
  if (arguments.Has("per-class") && net.EvaluatedOutputs().empty())
    refuse("per-class", "layer that evaluates classes, such as DetectionEvaluate or SegmentationEvaluate");
}

// The result of testing one net.
struct Tested {
  int64_t iterations = 0;
  int64_t batch = 0;
  double loss = 0;
  double seconds = 0;
  std::vector<OutputValue> means;
};

// As many batches as were asked for, or the data once.
int64_t BatchesOf(const Arguments& arguments, const TestNet& net) {
  const int64_t records = net.feed().epoch_size();
  const int64_t batch = std::max<int64_t>(1, net.feed().batch_size());
  const int64_t once = BatchesOfData(net.feed());
  const int64_t iterations = arguments.Int("iterations", once, 1, INT64_MAX);
  if (records > 0 && iterations > once) {
    LogWarning(StrCat("--iterations ", iterations, " with batches of ", batch, " takes ",
                      (Size(iterations) * batch).value(), " of ", records, " records, some more than once; ", once,
                      " takes them once"));
  }
  return iterations;
}

Tested Measured(const Arguments& arguments, TestNet& net) {
  Tested tested;
  tested.iterations = BatchesOf(arguments, net);
  tested.batch = std::max<int64_t>(1, net.feed().batch_size());
  const int64_t begin = NowMicros();
  {
    ProgressBar bar(ParseProgressMode(arguments.Get("progress", "auto")), "batch", tested.iterations);
    tested.means = net.Run(tested.iterations, [&](int64_t done) {
      bar.Update(done, "");
      return true;
    });
  }
  tested.seconds = static_cast<double>(NowMicros() - begin) * 1e-6;
  tested.loss = net.loss();
  return tested;
}

nlohmann::ordered_json JsonOf(const Tested& tested) {
  nlohmann::ordered_json json = {{"iterations", tested.iterations}, {"batch", tested.batch}, {"loss", tested.loss}};
  for (const auto& [name, value] : MetricsOf(tested.means)) json["outputs"][name] = value;
  for (const OutputValue& output : tested.means) {
    for (const auto& [label, precision] : output.classes)
      json["classes"][output.name][std::to_string(label)] = precision;
  }
  return json;
}

// Nothing if the program was only looked at.
std::optional<Tested> TestOf(const Arguments& arguments, const TestSource& source, const NetParameter& param,
                             bool begins_trace) {
  TestOptions options;
  options.compile = CompileOptionsOf(arguments);
  ParameterStore store(options.compile.device);
  options.evaluation = Evaluation::kDetection;
  options.precision_rule = RuleOf(arguments, source.solver);
  if (!LooksInside(arguments)) RefuseUnfed(param);
  CheckTestedClasses(source.net, arguments.overrides, param);
  SettleTestPrecision(arguments.Has("precision"), source.solver, param, options.compile);
  TestNet net(param, options, store);
  RefuseWithoutEvaluation(arguments, net);
  RefuseUnreadBeforeLook(arguments, {"iterations", "json", "per-class", "progress", "trace"});
  if (LookInside(arguments, "test", net.program())) return {};
  LoadWeightsFor(options.compile, source.weights, net.blobs(), store);
  if (begins_trace) BeginTrace(arguments);
  return Measured(arguments, net);
}

// A line with the command that shows what a run has learned; none where its card names no task of inference.
std::string HowToTry(const Arguments& arguments, const TestSource& source) {
  const std::filesystem::path config = source.net.parent_path();
  std::error_code code;
  if (!source.has_solver || !std::filesystem::exists(config / kModelCardFile, code)) return {};
  const InferTask* task = FindInferTask(ModelCardOf(config).task());
  if (task == nullptr) return {};
  return TryLine(*task, arguments.Word(0, "the run"));
}

int RunTest(const Arguments& arguments) {
  const TestSource source = TestSourceOf(arguments, "test");
  NetReadOptions read;
  read.overrides = NetOverridesOf(arguments, "test");
  const std::vector<NetParameter> nets = ReadTestedNets(source, read, StateOfFlags(arguments));
  std::vector<Tested> all;
  for (const NetParameter& net : nets) {
    if (std::optional<Tested> tested = TestOf(arguments, source, net, all.empty())) all.push_back(std::move(*tested));
  }
  if (all.empty()) return 0;
  EndTrace(arguments);
  const bool with_classes = arguments.Has("per-class") || source.solver.show_per_class_result();
  std::vector<nlohmann::ordered_json> rows;
  for (size_t i = 0; i < all.size(); ++i) {
    if (arguments.Has("json")) {
      rows.push_back(JsonOf(all[i]));
    } else {
      if (all.size() > 1) Print("test net {} of {}, {}:\n", i, all.size(), StateText(nets[i].state()));
      PrintResults(all[i].means, all[i].loss, with_classes);
    }
    LogInfo(fmt::format("{} batches of {} in {:.1f} s, {:.0f} img/s", all[i].iterations, all[i].batch, all[i].seconds,
                        static_cast<double>(all[i].iterations * all[i].batch) / all[i].seconds));
  }
  if (rows.size() == 1) PrintJson(rows.front());
  if (rows.size() > 1) PrintJson(nlohmann::ordered_json{{"nets", rows}});
  if (const std::string how = HowToTry(arguments, source); rows.empty() && !how.empty()) LogInfo(how);
  return 0;
}

}  // namespace

Verb TestVerb() {
  Verb verb;
  verb.name = "test";
  verb.summary = "run a trained net over its test data";
  verb.usage = "RUN|MODEL [--flags]";
  verb.examples = {"moka test runs/latest", "moka test lenet-0001@iter_500",
                   "moka test models/lenet --weights lenet.caffemodel",
                   "moka test --model=train_val.prototxt --weights=net.caffemodel --iterations=50"};
  verb.options = {
      {"model", "FILE", "training prototxt (Caffe's spelling)"},
      {"weights", "FILES", ".safetensors, .caffemodel or .npz (default: a run's best, or the model's own)"},
      {"runs", "FOLDER", "where runs lie (default runs)"},
      {"iterations", "N", "batches (default: the data once)"},
      {"ap-version", "RULE", "average precision of detections: 11point, MaxIntegral or Integral (default: the run's)"},
      {"per-class", "", "the average precision of each class of a detection net"},
      {"allow-outputs", "DIR", "let files that the net names lie below DIR too"},
      {"progress", "MODE", "auto, bar, lines or off"},
      {"json", "", "print as JSON"}};
  for (const OptionSpec& option : ProgramOptionSpecs()) verb.options.push_back(option);
  for (const OptionSpec& option : StateOptionSpecs()) verb.options.push_back(option);
  verb.run = RunTest;
  verb.takes_fields = TakenFields::kOfNet;
  return verb;
}

}  // namespace moka
