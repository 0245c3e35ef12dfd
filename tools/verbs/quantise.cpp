// moka quantise: ranges for 8-bit inference from training data, and what they cost and gain on the test data.
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "optim/checkpoint/trained_weights.h"
#include "optim/run/report.h"
#include "optim/step/test_net.h"
#include "proto/nets/filter.h"
#include "proto/nets/net_file.h"
#include "proto/nets/solver_file.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/cli/progress.h"
#include "tools/measure/calibration.h"
#include "tools/measure/machine.h"
#include "tools/nets/test_source.h"
#include "tools/train/overrides.h"
#include "tools/train/program_options.h"
#include "tools/train/train_data_checks.h"

namespace moka {
namespace {

// Takes what the training's layer reads and in which order, and nothing of how it changes it: pictures are measured as
// tests and inference see them, without the crops and distortions of a training.
void ReadAsTrained(const LayerParameter& trained, LayerParameter& layer) {
  namespace pb = google::protobuf;
  constexpr std::array<std::string_view, 8> kWhere = {
      "backend",     "root_folder",       "shuffle",     "source",
      "source_file", "source_vocabulary", "target_file", "target_vocabulary",
  };
  std::vector<const pb::FieldDescriptor*> parts;
  trained.GetReflection()->ListFields(trained, &parts);
  for (const pb::FieldDescriptor* part : parts) {
    if (part->is_repeated() || part->message_type() == nullptr) continue;
    const pb::Message& from = trained.GetReflection()->GetMessage(trained, part);
    const std::unique_ptr<pb::Message> read(from.New());
    read->CopyFrom(from);
    std::vector<const pb::FieldDescriptor*> fields;
    for (const std::string_view name : kWhere) {
      const pb::FieldDescriptor* field = part->message_type()->FindFieldByName(std::string(name));
      if (field != nullptr) fields.push_back(field);
    }
    if (fields.empty()) continue;
    pb::Message* to = layer.GetReflection()->MutableMessage(&layer, part);
    to->GetReflection()->SwapFields(to, read.get(), fields);
  }
}

// The net in both phases, filtered: of a run as its solver has them.
struct Phases {
  NetParameter tested;
  NetParameter trained;
};
Phases ReadPhases(const TestSource& source, const NetReadOptions& read) {
  if (!source.has_solver || source.solver.test_iter_size() == 0) {
    const NetParameter whole = ReadNet(source.net, read);
    NetState trained = source.solver.train_state();
    trained.set_phase(TRAIN);
    return {FilterNet(whole, TEST), FilterNet(whole, trained)};
  }
  const SolverNets nets = ReadSolverNets(source.solver, read);
  if (nets.tests.size() > 1) {
    LogInfo(StrCat("of the ", nets.tests.size(), " test nets of the run the first is taken, ",
                   StateText(nets.tests.front().state())));
  }
  return {nets.tests.front(), nets.train};
}

// The net as it is tested, but reading the training data: test data is for reporting.
NetParameter CalibrationNet(const Phases& phases) {
  NetParameter tested = phases.tested;
  const NetParameter& trained = phases.trained;
  for (LayerParameter& layer : *tested.mutable_layer()) {
    if (layer.bottom_size() > 0 || layer.top_size() == 0) continue;
    for (const LayerParameter& source : trained.layer()) {
      if (source.bottom_size() > 0 || source.top_size() == 0 || source.top(0) != layer.top(0)) continue;
      if (source.type() == layer.type()) {
        ReadAsTrained(source, layer);
        break;
      }
      layer = source;
      layer.clear_include();
      layer.clear_exclude();
      layer.set_phase(TEST);
      break;
    }
  }
  return tested;
}

// A test net with its weights, and how long a batch takes.
struct Candidate {
  ParameterStore store;
  std::unique_ptr<TestNet> net;
  std::vector<OutputValue> outputs;
  double best_batch_ms = INFINITY;
};

// Returns a candidate whose net is compiled and has no weights yet.
Candidate Compiled(const NetParameter& net, const CompileOptions& compile) {
  Candidate c;
  TestOptions options;
  options.compile = compile;
  options.evaluation = Evaluation::kDetection;
  c.net = std::make_unique<TestNet>(net, options, c.store);
  return c;
}

Candidate MakeCandidate(const NetParameter& net, const std::string& weights, const CompileOptions& compile) {
  Candidate c = Compiled(net, compile);
  LoadTrainedWeights(weights, c.net->blobs(), c.store);
  return c;
}

// Before a batch is measured.
void RefuseWithoutConvolutions(const NetParameter& param, const Program& program) {
  if (Calibration::HasRanges(program)) return;
  throw Error(ErrorKind::kConfig, StrCat("net \"", param.name(), "\" has no convolutions to run on 8-bit integers"));
}

int64_t BytesOfSteps(const Program& program) {
  int64_t bytes = program.report().memory.constant_bytes;
  return bytes + program.report().memory.arena_bytes;
}

void Evaluate(Candidate& c, int64_t batches, const std::string& name) {
  ProgressBar bar(ProgressMode::kAuto, name, batches);
  c.outputs = c.net->Run(batches, [&](int64_t done) {
    bar.Update(done, "");
    return true;
  });
  for (int run = 0; run < 5; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    c.net->program().Run();
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    c.best_batch_ms = std::min(c.best_batch_ms, ms);
  }
}

// The programs that are known before the ranges are: the one that measures them and the one it is compared with.
int Look(const Arguments& arguments, const Phases& phases, const CompileOptions& observing,
         const CompileOptions& compile) {
  LookInside(arguments, "calibrate", Compiled(CalibrationNet(phases), observing).net->program());
  LookInside(arguments, "float32", Compiled(phases.tested, compile).net->program());
  return 0;
}

// The ranges of the training data's values at every convolution, and the weights' own.
Quantization Calibrated(const Arguments& arguments, const TestSource& source, const Phases& phases,
                        const CompileOptions& observing) {
  Calibration calibration;
  Candidate c = MakeCandidate(CalibrationNet(phases), source.weights, observing);
  RefuseWithoutConvolutions(phases.tested, c.net->program());
  const int64_t batches = arguments.Int("batches", 16, 1, 100000);
  ProgressBar bar(ProgressMode::kAuto, "calibrate", batches);
  c.net->Run(batches, [&](int64_t done) {
    calibration.Observe(c.net->program(TestNet::Batch::kLast));
    bar.Update(done, "");
    return true;
  });
  Quantization quantization = calibration.Finish();
  NoteWeights(c.net->blobs(), c.store, quantization);
  return quantization;
}

// Prints what integers cost and gain: the outputs, the milliseconds and the memory of both.
void PrintGain(const Candidate& before, const Candidate& after, int64_t batch) {
  std::set<std::string> converted;  // by layers: a net in tracks has a step of each for every part of a batch
  std::set<std::string> convolutions;
  for (const StepReport& step : after.net->program().steps()) {
    if (step.op == "convolution_int8") converted.insert(step.layer);
    if (step.op == "convolution" || step.op == "convolution_int8") convolutions.insert(step.layer);
  }
  Print("{:<24} {:>12} {:>12}\n", "", "float32", "int8");
  for (size_t i = 0; i < before.outputs.size(); ++i) {
    Print("{:<24} {:>12.5g} {:>12.5g}\n", before.outputs[i].name, before.outputs[i].value, after.outputs[i].value);
  }
  const std::string batch_name = StrCat("batch of ", batch, ", ms");
  Print("{:<24} {:>12.3f} {:>12.3f}\n", batch_name, before.best_batch_ms, after.best_batch_ms);
  Print("{:<24} {:>12} {:>12}\n", "memory", BytesText(BytesOfSteps(before.net->program())),
        BytesText(BytesOfSteps(after.net->program())));
  Print("{} of {} convolutions run on integers, {} threads\n", converted.size(), convolutions.size(), ThreadCount());
}

int RunQuantise(const Arguments& arguments) {
  if (arguments.Has("int8")) {
    throw Error(ErrorKind::kUsage, {}, "moka quantise measures ranges, and takes none: --int8 has no use here",
                "`moka test --int8 FILE` runs on integers; --out names the file that is written");
  }
  const TestSource source = TestSourceOf(arguments, "quantise");
  NetReadOptions read;
  read.overrides = NetOverridesOf(arguments, "quantise");
  const Phases phases = ReadPhases(source, read);
  CheckTestedClasses(source.net, read.overrides, phases.tested);
  const std::filesystem::path out =
      arguments.Get("out", std::filesystem::path(source.net).replace_extension(".int8.json").string());
  CompileOptions compile = CompileOptionsOf(arguments);
  compile.device = {};  // 8-bit kernels are the CPU's
  if (compile.compute == Compute::kAuto) {
    throw Error(ErrorKind::kUsage, {},
                "--precision=auto: integers are compared with what the net computes in otherwise",
                "name it: float32 or bfloat16");
  }

  CompileOptions observing = compile;
  observing.observes_convolutions = true;
  RefuseUnreadBeforeLook(arguments, {"batches", "iterations", "trace"});
  if (LooksInside(arguments)) return Look(arguments, phases, observing, compile);
  BeginTrace(arguments);
  const auto quantization = std::make_shared<Quantization>(Calibrated(arguments, source, phases, observing));
  WriteQuantization(*quantization, out);
  LogInfo(StrCat("ranges of ", quantization->convolutions.size(), " convolutions in ", out.string()));

  quantization->weight_limit = WeightLimit();
  CompileOptions integers = compile;
  integers.quantization = quantization;
  Candidate before = MakeCandidate(phases.tested, source.weights, compile);
  Candidate after = MakeCandidate(phases.tested, source.weights, integers);
  const int64_t batch = std::max<int64_t>(1, before.net->feed().batch_size());
  const int64_t batches = arguments.Int("iterations", BatchesOfData(before.net->feed()), 1, INT64_MAX);
  Evaluate(before, batches, "float32");
  Evaluate(after, batches, "int8");
  EndTrace(arguments);
  PrintGain(before, after, batch);
  return 0;
}

}  // namespace

Verb QuantiseVerb() {
  Verb verb;
  verb.name = "quantise";
  verb.summary = "measure the ranges for 8-bit inference, and what it costs and gains";
  verb.usage = "RUN|MODEL [--flags]";
  verb.examples = {"moka quantise runs/latest", "moka quantise models/lenet --weights lenet.caffemodel --batches 32",
                   "moka test runs/latest --int8 runs/latest/config/net.int8.json",
                   "moka quantise runs/latest --dry-run"};
  verb.options = {{"model", "FILE", "training prototxt (Caffe's spelling)"},
                  {"weights", "FILES", ".safetensors, .caffemodel or .npz (default: a run's best, or the model's own)"},
                  {"runs", "FOLDER", "where runs lie (default runs)"},
                  {"batches", "N", "batches of training data to measure (default: 16)"},
                  {"iterations", "N", "batches of test data to compare on (default: the data once)"},
                  {"allow-outputs", "DIR", "let files that the net names lie below DIR too"},
                  {"out", "FILE", "the ranges (default: beside the net, a run's is in its config/, .int8.json)"}};
  for (const OptionSpec& option : ProgramOptionSpecs()) {
    if (option.name != "recompute") verb.options.push_back(option);  // training's
  }
  verb.run = RunQuantise;
  verb.takes_fields = TakenFields::kOfNet;
  return verb;
}

}  // namespace moka
