// GFLOP/s of every distinct convolution of ResNet-50 v1.5, forward and both gradients, under the layouts the kernels
// propose, and their share of the machine's measured multiply-add ceiling. Every layer is verified first, on one image:
// the three passes are one trilinear form, so <y, dy> = <x, dx> = <w, dw> must hold.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/parallel.h"
#include "core/rng.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/catalog.h"
#include "tools/ceilings.h"

namespace moka {
namespace {

struct Layer {
  const char* name;
  int64_t channels;
  int64_t outputs;
  int64_t side;
  int64_t kernel;
  int64_t stride;
  int count;  // how often ResNet-50 has it
};

constexpr Layer kLayers[] = {
    {"conv1 7x7/2", 3, 64, 224, 7, 2, 1},        {"56 1x1 64-64", 64, 64, 56, 1, 1, 1},
    {"56 3x3 64-64", 64, 64, 56, 3, 1, 3},       {"56 1x1 64-256", 64, 256, 56, 1, 1, 4},
    {"56 1x1 256-64", 256, 64, 56, 1, 1, 2},     {"56 1x1 256-128", 256, 128, 56, 1, 1, 1},
    {"56 3x3/2 128-128", 128, 128, 56, 3, 2, 1}, {"56 1x1/2 256-512", 256, 512, 56, 1, 2, 1},
    {"28 1x1 128-512", 128, 512, 28, 1, 1, 4},   {"28 1x1 512-128", 512, 128, 28, 1, 1, 3},
    {"28 3x3 128-128", 128, 128, 28, 3, 1, 3},   {"28 1x1 512-256", 512, 256, 28, 1, 1, 1},
    {"28 3x3/2 256-256", 256, 256, 28, 3, 2, 1}, {"28 1x1/2 512-1024", 512, 1024, 28, 1, 2, 1},
    {"14 1x1 256-1024", 256, 1024, 14, 1, 1, 6}, {"14 1x1 1024-256", 1024, 256, 14, 1, 1, 5},
    {"14 3x3 256-256", 256, 256, 14, 3, 1, 5},   {"14 1x1 1024-512", 1024, 512, 14, 1, 1, 1},
    {"14 3x3/2 512-512", 512, 512, 14, 3, 2, 1}, {"14 1x1/2 1024-2048", 1024, 2048, 14, 1, 2, 1},
    {"7 1x1 512-2048", 512, 2048, 7, 1, 1, 3},   {"7 1x1 2048-512", 2048, 512, 7, 1, 1, 2},
    {"7 3x3 512-512", 512, 512, 7, 3, 1, 2},
};

// One node with a kernel and memory of its own, under the layouts its kernel proposes.
class Bench {
 public:
  Bench(std::string_view op, std::vector<TensorType> inputs, const Attributes& attributes) : graph_(StandardCatalog()) {
    std::vector<ValueId> ids;
    for (const TensorType& type : inputs) {
      ids.push_back(graph_.AddInput(StrCat("x", ids.size()), {type.dtype, type.shape, {}}));
    }
    NodeOrigin origin;
    origin.layer = "bench";
    const Node& node = graph_.AddNode(op, ids, attributes, origin);
    std::vector<TensorType> outputs = graph_.OutputTypes(node);
    const KernelDef* def = StandardCatalog().KernelsOf(op, DeviceKind::kCpu).at(0);
    const auto proposal = def->propose({node, inputs, outputs});
    Require(proposal.has_value(), "the first kernel proposes layouts");
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i].layout = proposal->inputs[i];
    for (size_t o = 0; o < outputs.size(); ++o) outputs[o].layout = proposal->outputs[o];
    const std::string refusal = def->refuse({node, inputs, outputs});
    if (!refusal.empty()) throw Error(ErrorKind::kUnavailable, StrCat(op, ": ", refusal));
    kernel_ = def->make({node, inputs, outputs});
    for (const TensorType& type : inputs) in_.push_back(owned_.emplace_back(type).tensor());
    for (const TensorType& type : outputs) out_.push_back(owned_.emplace_back(type).tensor());
    scratch_ = Buffer::Allocate(kernel_->scratch_bytes());
    kernel_->Bind({in_, out_, scratch_.data()});
  }

  void Fill(size_t input, const Tensor& from) const { CopyTensor(from, in_[input]); }
  void Run() { kernel_->Run(); }
  const Tensor& in(size_t i) const { return in_[i]; }
  const Tensor& out() const { return out_[0]; }
  std::string_view implementation() const { return kernel_->implementation(); }

  // The best run within about `seconds`, after one to warm up.
  double BestSeconds(double seconds) {
    Run();
    double best = 1e9;
    for (double spent = 0; spent < seconds;) {
      const auto start = std::chrono::steady_clock::now();
      Run();
      const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      best = std::min(best, took);
      spent += took;
    }
    return best;
  }

 private:
  Graph graph_;
  std::vector<OwnedTensor> owned_;
  std::vector<Tensor> in_;
  std::vector<Tensor> out_;
  Buffer scratch_;
  std::unique_ptr<Kernel> kernel_;
};

// Forward and both gradients of one layer; the gradients see the layouts the forward pass left.
struct Passes {
  Bench forward;
  Bench data;
  Bench weights;
};

Ints DimsOf(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

Passes MakePasses(const Layer& layer, int64_t batch) {
  const TensorType x{DType::kFloat32, Shape{batch, layer.channels, layer.side, layer.side}, {}};
  const TensorType w{DType::kFloat32, Shape{layer.outputs, layer.channels, layer.kernel, layer.kernel}, {}};
  const int64_t pad = layer.kernel / 2;
  Attributes geometry{{"stride", Ints{layer.stride, layer.stride}},
                      {"pad_begin", Ints{pad, pad}},
                      {"pad_end", Ints{pad, pad}},
                      {"dilation", Ints{1, 1}}};
  Bench forward("convolution", {x, w}, geometry);
  const TensorType& y = forward.out().type();
  Attributes for_data = geometry;
  for_data.Set("input_shape", DimsOf(x.shape));
  Bench data("convolution_backward_data", {y, forward.in(1).type()}, for_data);
  Attributes for_weights = geometry;
  for_weights.Set("weight_shape", DimsOf(w.shape));
  for_weights.Set("bias", false);
  Bench weights("convolution_backward_weights", {forward.in(0).type(), y}, for_weights);
  return {std::move(forward), std::move(data), std::move(weights)};
}

OwnedTensor Random(const Shape& shape, uint64_t stream) {
  OwnedTensor tensor(TensorType{DType::kFloat32, shape, {}});
  RandomStream random(1, stream);
  for (float& v : tensor.as<float>()) v = static_cast<float>(random.Uniform(-1, 1));
  return tensor;
}

// In any layouts: both are made plain first.
double Dot(const OwnedTensor& a, const Tensor& b) {
  const OwnedTensor plain(a.type());
  CopyTensor(b, plain.tensor());
  double sum = 0;
  for (size_t i = 0; i < plain.as<float>().size(); ++i)
    sum += static_cast<double>(a.as<float>()[i]) * plain.as<float>()[i];
  return sum;
}

void VerifyLayer(const Layer& layer) {
  Passes p = MakePasses(layer, 1);
  const OwnedTensor x = Random(p.forward.in(0).shape(), 1);
  const OwnedTensor w = Random(p.forward.in(1).shape(), 2);
  const OwnedTensor dy = Random(p.forward.out().shape(), 3);
  p.forward.Fill(0, x.tensor());
  p.forward.Fill(1, w.tensor());
  p.data.Fill(0, dy.tensor());
  p.data.Fill(1, w.tensor());
  p.weights.Fill(0, x.tensor());
  p.weights.Fill(1, dy.tensor());
  for (Bench* bench : {&p.forward, &p.data, &p.weights}) bench->Run();
  const double a = Dot(dy, p.forward.out());
  const double b = Dot(x, p.data.out());
  const double c = Dot(w, p.weights.out());
  // The terms' signs are random: their sum is about this large.
  const double scale = std::sqrt(static_cast<double>(dy.shape().Count() * w.shape().Count(1, 4))) / 3;
  if (std::max(std::abs(a - b), std::abs(a - c)) < 1e-3 * scale) return;
  throw Error(ErrorKind::kVerification, StrCat(layer.name, ": <y,dy> = ", a, ", <x,dx> = ", b, ", <w,dw> = ", c));
}

struct Options {
  int64_t batch = 16;
  double seconds = 0.3;
  std::string json;
};

// One layer's three rates; adds their times (times the layer's count) to totals.
nlohmann::json MeasureLayer(const Layer& layer, const Options& options, double peak, std::array<double, 3>& totals,
                            double& flops_total) {
  VerifyLayer(layer);
  Passes p = MakePasses(layer, options.batch);
  const Shape& y = p.forward.out().shape();
  const double flops =
      2.0 * static_cast<double>(y.Count()) * static_cast<double>(layer.channels * layer.kernel * layer.kernel);
  flops_total += flops * layer.count;
  nlohmann::json row = {{"layer", layer.name}, {"count", layer.count}, {"gflop", flops * 1e-9}};
  std::printf("%-19s %5.2f", layer.name, flops * 1e-9);
  const std::array<std::pair<const char*, Bench*>, 3> passes = {
      {{"forward", &p.forward}, {"backward_data", &p.data}, {"backward_weights", &p.weights}}};
  for (size_t i = 0; i < passes.size(); ++i) {
    const auto& [name, bench] = passes[i];
    const double seconds = bench->BestSeconds(options.seconds);
    totals[i] += seconds * layer.count;
    const double rate = flops / seconds * 1e-9;
    row[name] = {{"gflops", rate},
                 {"share", rate / peak},
                 {"ms", seconds * 1e3},
                 {"implementation", bench->implementation()},
                 {"x", bench->in(0).type().ToString()},
                 {"y", bench->out().type().ToString()}};
    std::printf(" | %7.1f %3.0f%%", rate, 100 * rate / peak);
  }
  std::printf(" | %s\n", std::string(p.forward.implementation()).c_str());
  return row;
}

int Run(const Options& options) {
  const double peak = MeasureCeilings().gflops;
  std::printf("ResNet-50, batch %lld, %d threads, ceiling %.0f GFLOP/s (fused multiply-adds in registers)\n",
              static_cast<long long>(options.batch), ThreadCount(), peak);
  std::printf("%-19s %5s | %12s | %12s | %12s | kernel\n", "layer", "GFLOP", "forward", "data", "weights");
  std::array<double, 3> totals{};
  double flops = 0;
  nlohmann::json report = {{"batch", options.batch}, {"threads", ThreadCount()}, {"ceiling_gflops", peak}};
  for (const Layer& layer : kLayers) {
    report["layers"].push_back(MeasureLayer(layer, options, peak, totals, flops));
  }
  std::printf("%-19s %5.1f", "all, with counts", flops * 1e-9);
  for (const double seconds : totals) {
    const double rate = flops / seconds * 1e-9;
    std::printf(" | %7.1f %3.0f%%", rate, 100 * rate / peak);
    report["total_ms"].push_back(seconds * 1e3);
    report["total_gflops"].push_back(rate);
  }
  std::printf("\n");
  if (options.json.empty()) return 0;
  std::ofstream(options.json) << report.dump(1) << "\n";
  return 0;
}

}  // namespace
}  // namespace moka

int main(int argc, char** argv) {
  moka::Options options;
  CLI::App app{"Speed of ResNet-50's convolutions"};
  app.add_option("--batch", options.batch, "images")->check(CLI::PositiveNumber);
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
