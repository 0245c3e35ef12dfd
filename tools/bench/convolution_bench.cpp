// GFLOP/s of every distinct convolution of a network, forward and both gradients, under the layouts the kernels
// propose, their share of the machine's measured multiply-add ceiling, and the ratio to oneDNN's row for another one.
// Every layer is verified first, on one image: the three passes are one trilinear form, so <y, dy> = <x, dx> = <w, dw>
// must hold.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "core/median.h"
#include "core/rng.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "graph/op.h"
#include "layers/net/catalog.h"
#include "tools/bench/convolution_nets.h"
#include "tools/measure/ceilings.h"

namespace moka {
namespace {

// A pass of a layer and the kernel that is to run it, under the layouts the kernel proposes.
struct Task {
  std::string op;
  Attributes attributes;
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
  const KernelDef* def = nullptr;
};

// One node with a kernel and memory of its own.
class Bench {
 public:
  explicit Bench(const Task& task) : graph_(StandardCatalog()) {
    const Node& node = NodeOf(graph_, task);
    kernel_ = task.def->make({node, task.inputs, task.outputs});
    for (const TensorType& type : task.inputs) in_.push_back(owned_.emplace_back(type).tensor());
    for (const TensorType& type : task.outputs) out_.push_back(owned_.emplace_back(type).tensor());
    scratch_ = Buffer::Allocate(kernel_->scratch_bytes());
    kernel_->Bind({in_, out_, scratch_.data()});
  }

  static const Node& NodeOf(Graph& graph, const Task& task) {
    std::vector<ValueId> ids;
    for (const TensorType& type : task.inputs) {
      ids.push_back(graph.AddInput(StrCat("x", ids.size()), {type.dtype, type.shape, {}}));
    }
    NodeOrigin origin;
    origin.layer = "bench";
    return graph.AddNode(task.op, ids, task.attributes, origin);
  }

  void Fill(size_t input, const Tensor& from) const { CopyTensor(from, in_[input]); }
  const Tensor& out() const { return out_[0]; }
  std::string_view implementation() const { return kernel_->implementation(); }

  double Run() {
    const auto start = std::chrono::steady_clock::now();
    kernel_->Run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  Graph graph_;
  std::vector<OwnedTensor> owned_;
  std::vector<Tensor> in_;
  std::vector<Tensor> out_;
  Buffer scratch_;
  std::unique_ptr<Kernel> kernel_;
};

// None if there is no such kernel, or it refuses. An empty name: the first kernel.
std::optional<Task> MakeTask(std::string_view op, std::string_view kernel, std::vector<TensorType> inputs,
                             Attributes attributes) {
  Task task{std::string(op), std::move(attributes), std::move(inputs), {}, nullptr};
  for (const KernelDef* def : StandardCatalog().KernelsOf(op, DeviceKind::kCpu)) {
    if (task.def == nullptr && (kernel.empty() || def->name == kernel)) task.def = def;
  }
  if (task.def == nullptr) return {};
  Graph graph(StandardCatalog());
  const Node& node = Bench::NodeOf(graph, task);
  task.outputs = graph.OutputTypes(node);
  const auto proposal = task.def->propose({node, task.inputs, task.outputs});
  if (!proposal) return {};
  for (size_t i = 0; i < task.inputs.size(); ++i) task.inputs[i].layout = proposal->inputs[i];
  for (size_t o = 0; o < task.outputs.size(); ++o) task.outputs[o].layout = proposal->outputs[o];
  if (!task.def->refuse({node, task.inputs, task.outputs}).empty()) return {};
  return task;
}

constexpr std::array<const char*, 3> kPasses = {"forward", "backward_data", "backward_weights"};

// Forward and both gradients of one layer; the gradients see the layouts the forward pass left.
std::array<std::optional<Task>, 3> MakeTasks(const BenchLayer& layer, int64_t batch, std::string_view kernel) {
  TensorType x{DType::kFloat32, Shape{batch, layer.channels, layer.side, layer.side}, {}};
  TensorType w{DType::kFloat32, Shape{layer.outputs, layer.channels / layer.groups, layer.kernel, layer.kernel}, {}};
  const int64_t pad = layer.padding();
  const Attributes geometry{{"stride", Ints{layer.stride, layer.stride}},
                            {"pad_begin", Ints{pad, pad}},
                            {"pad_end", Ints{pad, pad}},
                            {"dilation", Ints{1, 1}},
                            {"groups", layer.groups}};
  std::array<std::optional<Task>, 3> tasks;
  tasks[0] = MakeTask("convolution", kernel, {x, w}, geometry);
  const std::optional<Task> any = tasks[0] ? tasks[0] : MakeTask("convolution", "", {x, w}, geometry);
  Require(any.has_value(), "the first kernel takes every convolution");
  x = any->inputs[0];
  w = any->inputs[1];
  const TensorType y = any->outputs[0];
  Attributes for_data = geometry;
  for_data.Set("input_shape", DimsOf(x.shape));
  tasks[1] = MakeTask("convolution_backward_data", kernel, {y, w}, for_data);
  Attributes for_weights = geometry;
  for_weights.Set("weight_shape", DimsOf(w.shape));
  for_weights.Set("bias", false);
  tasks[2] = MakeTask("convolution_backward_weights", kernel, {x, y}, for_weights);
  return tasks;
}

OwnedTensor Random(const Shape& shape, uint64_t stream) {
  OwnedTensor tensor(TensorType{DType::kFloat32, shape, {}});
  RandomStream random(1, stream);
  for (float& v : tensor.as<float>()) v = static_cast<float>(random.Uniform(-1, 1));
  return tensor;
}

// The layouts may be any: both tensors are made plain first.
double Dot(const OwnedTensor& a, const Tensor& b) {
  const OwnedTensor plain(a.type());
  CopyTensor(b, plain.tensor());
  double sum = 0;
  for (size_t i = 0; i < plain.as<float>().size(); ++i)
    sum += static_cast<double>(a.as<float>()[i]) * plain.as<float>()[i];
  return sum;
}

// The named kernel where it takes the pass, otherwise the first one.
void VerifyLayer(const BenchLayer& layer, std::string_view kernel) {
  std::array<std::optional<Task>, 3> tasks = MakeTasks(layer, 1, kernel);
  const auto first = MakeTasks(layer, 1, "");
  std::vector<Bench> benches;
  for (size_t i = 0; i < tasks.size(); ++i) benches.emplace_back(tasks[i] ? *tasks[i] : first[i].value());
  const OwnedTensor x = Random(first[0]->inputs[0].shape, 1);
  const OwnedTensor w = Random(first[0]->inputs[1].shape, 2);
  const OwnedTensor dy = Random(first[0]->outputs[0].shape, 3);
  const std::array<std::pair<const OwnedTensor*, const OwnedTensor*>, 3> operands = {{{&x, &w}, {&dy, &w}, {&x, &dy}}};
  for (size_t i = 0; i < benches.size(); ++i) {
    benches[i].Fill(0, operands[i].first->tensor());
    benches[i].Fill(1, operands[i].second->tensor());
    benches[i].Run();
  }
  const double a = Dot(dy, benches[0].out());
  const double b = Dot(x, benches[1].out());
  const double c = Dot(w, benches[2].out());
  // The terms' signs are random: their sum is about this large.
  const double scale = std::sqrt(static_cast<double>(dy.shape().Count() * w.shape().Count(1, 4))) / 3;
  if (std::max(std::abs(a - b), std::abs(a - c)) < 1e-3 * scale) return;
  throw Error(ErrorKind::kVerification, StrCat(layer.name, ": <y,dy> = ", a, ", <x,dx> = ", b, ", <w,dw> = ", c));
}

struct Options {
  std::string net = "resnet50";
  std::string kernel;  // of all passes; empty: the first
  std::string only;    // layers whose name has this in it
  int64_t batch = 0;   // 0: the net's
  double seconds = 0.3;
  std::string json;
};

// Runs of two kernels by turns (or of one), after one of each to warm up.
struct Times {
  std::vector<double> own;
  std::vector<double> rival;
  double best() const { return *std::ranges::min_element(own); }
  double Ratio() const { return Median(rival) / Median(own); }
};
Times Measure(Bench& own, Bench* rival, double seconds) {
  Times times;
  own.Run();
  if (rival != nullptr) rival->Run();
  for (double spent = 0; spent < seconds || times.own.size() < 3;) {
    times.own.push_back(own.Run());
    spent += times.own.back();
    if (rival != nullptr) times.rival.push_back(rival->Run());
  }
  return times;
}

// A pass's sums over the layers its kernel takes.
struct Total {
  double flops = 0;
  double own = 0;
  double rival = 0;
};

class Report {
 public:
  Report(const Options& options, int64_t batch, double peak) : options_(options), batch_(batch), peak_(peak) {
    json_ = {{"net", options.net}, {"batch", batch}, {"threads", ThreadCount()}, {"ceiling_gflops", peak}};
    compares_ = !options.kernel.empty() && options.kernel != "onednn";
  }

  void AddLayer(const BenchLayer& layer) {
    VerifyLayer(layer, options_.kernel);
    const auto tasks = MakeTasks(layer, batch_, options_.kernel);
    const auto rivals = MakeTasks(layer, batch_, "onednn");
    const Shape& y = rivals[0]->outputs[0].shape;
    const double flops = 2.0 * static_cast<double>(y.Count()) *
                         static_cast<double>(layer.channels / layer.groups * layer.kernel * layer.kernel);
    nlohmann::json row = {{"layer", layer.name}, {"count", layer.count}, {"gflop", flops * 1e-9}};
    std::printf("%-19s %5.2f", layer.name, flops * 1e-9);
    std::string implementation;
    for (size_t i = 0; i < kPasses.size(); ++i) {
      if (!tasks[i]) {
        std::printf(" | %7s %3s %s", "-", "", compares_ ? "      " : "");
        continue;
      }
      Bench bench(*tasks[i]);
      std::optional<Bench> rival;
      if (compares_) rival.emplace(rivals[i].value());
      const Times times = Measure(bench, rival ? &*rival : nullptr, options_.seconds);
      const double rate = flops / times.best() * 1e-9;
      row[kPasses[i]] = {{"gflops", rate},
                         {"share", rate / peak_},
                         {"ms", times.best() * 1e3},
                         {"implementation", bench.implementation()},
                         {"x", tasks[i]->inputs[0].ToString()},
                         {"y", tasks[i]->outputs[0].ToString()}};
      std::printf(" | %7.1f %3.0f%%", rate, 100 * rate / peak_);
      totals_[i].flops += flops * layer.count;
      totals_[i].own += times.best() * layer.count;
      if (compares_) {
        row[kPasses[i]]["ratio"] = times.Ratio();
        totals_[i].rival += times.Ratio() * times.best() * layer.count;
        std::printf(" %5.2fx", times.Ratio());
      }
      if (implementation.empty()) implementation = bench.implementation();
      std::fflush(stdout);
    }
    std::printf(" | %s\n", implementation.c_str());
    json_["layers"].push_back(row);
  }

  nlohmann::json Finish() {
    std::printf("%-19s %5s", "all, with counts", "");
    for (const Total& total : totals_) {
      const double rate = total.own > 0 ? total.flops / total.own * 1e-9 : 0;
      std::printf(" | %7.1f %3.0f%%", rate, 100 * rate / peak_);
      if (compares_) std::printf(" %5.2fx", total.own > 0 ? total.rival / total.own : 0);
      json_["total_ms"].push_back(total.own * 1e3);
      json_["total_gflops"].push_back(rate);
    }
    std::printf("\n");
    return json_;
  }

 private:
  const Options& options_;
  int64_t batch_;
  double peak_;
  bool compares_ = false;
  std::array<Total, 3> totals_;
  nlohmann::json json_;
};

int Run(const Options& options) {
  const auto nets = BenchNets();
  const auto net = std::ranges::find_if(nets, [&](const BenchNet& n) { return options.net == n.name; });
  Require(net != nets.end(), "the command line checks the net");
  const double peak = MeasureCeilings().gflops;
  const int64_t batch = options.batch > 0 ? options.batch : net->batch;
  std::printf("%s, batch %lld, %d threads, ceiling %.0f GFLOP/s (fused multiply-adds in registers)\n", net->title,
              static_cast<long long>(batch), ThreadCount(), peak);
  if (!options.kernel.empty()) {
    std::printf("kernel %s; x: how many times as fast as oneDNN's, run by turns\n", options.kernel.c_str());
  }
  std::printf("%-19s %5s | %-12s | %-12s | %-12s | kernel\n", "layer", "GFLOP", "forward", "data", "weights");
  Report report(options, batch, peak);
  for (const BenchLayer& layer : net->layers) {
    if (std::string_view(layer.name).find(options.only) != std::string_view::npos) report.AddLayer(layer);
  }
  const nlohmann::json json = report.Finish();
  if (!options.json.empty()) std::ofstream(options.json) << json.dump(1) << "\n";
  return 0;
}

}  // namespace
}  // namespace moka

int main(int argc, char** argv) {
  moka::Options options;
  CLI::App app{"Speed of the convolutions of a network"};
  std::vector<std::string> names;
  for (const moka::BenchNet& net : moka::BenchNets()) names.emplace_back(net.name);
  app.add_option("--net", options.net, "the network")->check(CLI::IsMember(names));
  app.add_option("--kernel", options.kernel, "the kernel to run, beside oneDNN's; otherwise the first of each pass");
  app.add_option("--only", options.only, "only layers with this in their name");
  app.add_option("--batch", options.batch, "images; otherwise what the network is usually trained with")
      ->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds, "time a measurement takes")->check(CLI::PositiveNumber);
  app.add_option("--json", options.json, "file for the numbers");
  CLI11_PARSE(app, argc, argv);
  try {
    return moka::Run(options);
  } catch (const moka::Error& error) {
    std::fprintf(stderr, "convolution_bench: %s\n", error.what());
    return static_cast<int>(error.kind());
  }
}
