// Convolution and its gradients by cuDNN. Sum, bias and ReLU are part of cuDNN's graph where an engine takes them, else
// a step of their own behind it. Sums of the result, for the batch norms around it, are taken in the graph or, where no
// engine does that faster than a sweep of their own, refused.
#include <algorithm>
#include <map>
#include <mutex>

#include "core/choices.h"
#include "core/device/device.h"
#include "core/text.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/channels.h"
#include "layers/kernels/cuda/cudnn/convolution_graph.h"
#include "layers/kernels/cuda/cudnn/plan_timing.h"
#include "layers/kernels/cuda/workspace.h"

namespace moka {
namespace {

using cudnn::ConvolutionProblem;

constexpr int64_t kMostWorkspaceBytes = int64_t{1} << 30;

// A plan with the graph it belongs to; or why there is none.
struct Choice {
  std::optional<cudnn::Plan> plan;
  bool is_fused = false;
  std::string refusal;
};

// Everything that may change which plan is best or allowed; the library's version and the GPU's name are added by
// ChoiceName.
std::string KeyOf(const ConvolutionProblem& p, const KernelQuery& query) {
  std::string key =
      StrCat(static_cast<int>(p.pass), p.sum, p.bias, p.relu, p.statistics, query.deterministic, query.allows_tf32, " ",
             query.device.index, " ", p.x.ToString(), p.w.ToString(), p.y.ToString());
  for (const Ints* values : {&p.geometry.stride, &p.geometry.pad_begin, &p.geometry.pad_end, &p.geometry.dilation}) {
    for (const int64_t value : *values) key += StrCat(" ", value);
  }
  return p.gradient_sums ? StrCat(key, " gradient sums", p.mask ? " masked" : "") : key;
}

// The bytes of one float a channel.
int64_t SumBytes(const ConvolutionProblem& p) { return p.summed().shape[1] * int64_t{sizeof(float)}; }

std::vector<cudnn::PackedTensor> TensorsOf(const ConvolutionProblem& p, bool fused) {
  std::vector<cudnn::PackedTensor> tensors = {
      {cudnn::kX, p.x.Bytes()}, {cudnn::kW, p.w.Bytes()}, {cudnn::kY, p.y.Bytes()}};
  if (!fused) return tensors;
  if (p.bias) tensors.emplace_back(cudnn::kBias, p.w.shape[0] * BytesOf(p.y.dtype));
  if (p.sum) tensors.emplace_back(cudnn::kSummand, p.summed().Bytes());
  if (p.mask) tensors.emplace_back(cudnn::kMask, p.x.Bytes());
  if (p.gradient_sums) tensors.emplace_back(cudnn::kNormInput, p.x.Bytes());
  if (!p.has_sums()) return tensors;
  for (const int64_t id : {cudnn::kSums, cudnn::kProducts}) tensors.emplace_back(id, SumBytes(p));
  return tensors;
}

constexpr std::string_view kFused = "fused\n";
constexpr std::string_view kApart = "apart\n";
constexpr const char* kSweepIsFaster = "a sweep of their own takes the sums faster";
constexpr size_t kTried = 8;
constexpr size_t kCompiled = 2;  // of engines that cuDNN compiles, a second or more each

// Returns the choice that an earlier search kept; no plan and no refusal if there is none.
Choice Kept(const std::string& name, const cudnn::Target& target, const cudnn::PlanRules& rules) {
  const std::optional<std::string> kept = ReadChoice(name);
  if (!kept) return {};
  if (*kept == kApart) return {{}, false, kSweepIsFaster};
  const bool fused = kept->starts_with(kFused);
  return {cudnn::PlanOf(fused ? kept->substr(kFused.size()) : *kept, target, rules), fused, {}};
}

// The bytes of scratch that the sweep wants which takes a problem's sums behind its plain plan.
int64_t SweepScratch(const ConvolutionProblem& p) {
  return p.statistics ? cuda::StatisticsScratch(p.y) : cuda::GradientSumsScratch(p.x);
}

// Queues that sweep.
void Sweep(const ConvolutionProblem& p, const cuda::Trial& trial) {
  std::byte* const sums = trial.tensor(cudnn::kSums);
  std::byte* const products = trial.tensor(cudnn::kProducts);
  if (p.statistics) {
    cuda::TakeStatistics(trial.stream(), p.y, trial.tensor(cudnn::kY), sums, products, trial.scratch());
    return;
  }
  std::byte* const g = trial.tensor(cudnn::kX);
  const cuda::GradientTensors from{g, p.sum ? trial.tensor(cudnn::kSummand) : nullptr,
                                   p.mask ? trial.tensor(cudnn::kMask) : nullptr, trial.tensor(cudnn::kNormInput)};
  cuda::TakeGradientSums(trial.stream(), p.x, from, g, sums, products, trial.scratch());
}

// Queues what comes before a plan for transposed weights: [K,C] and [C,K].
void Transpose(Stream& stream, const ConvolutionProblem& p, const void* weights, void* transposed) {
  cuda::TransposeHalves(stream, p.w.shape[0], p.w.shape[1], weights, transposed);
}

// The index of the fastest of the plans that take sums; as many as there are if the plan for the convolution alone and
// a sweep behind it are no slower.
size_t FastestWithSums(const ConvolutionProblem& problem, const cudnn::Plan& alone,
                       const std::vector<cudnn::Plan>& plans, const Device& device) {
  constexpr int64_t kUntransposed = 0;  // weights beside those that the graph names
  const std::vector<cudnn::PackedTensor> tensors = TensorsOf(problem, true);
  std::vector<cudnn::PackedTensor> all = tensors;
  all.emplace_back(kUntransposed, problem.w.Bytes());
  const cuda::Trial trial(all, std::max({alone.workspace_bytes, SweepScratch(problem), cudnn::MostWorkspace(plans)}),
                          device);
  const cudnn::Descriptor pack = cudnn::PackOf(trial, tensors);
  const cudnn::Descriptor pack_alone = cudnn::PackOf(trial, TensorsOf(problem, false));
  Stream& stream = trial.stream();
  cudnn::Handle& handle = cudnn::Handle::Of(device);
  const size_t best = cuda::FastestOf(stream, plans.size() + 1, [&](size_t i) {
    if (i == 0) {
      handle.Execute(stream.native(), alone.descriptor, pack_alone);
      Sweep(problem, trial);
      return;
    }
    if (problem.TransposesWeights()) Transpose(stream, problem, trial.tensor(kUntransposed), trial.tensor(cudnn::kW));
    handle.Execute(stream.native(), plans[i - 1].descriptor, pack);
    if (!problem.statistics) return;
    auto* const mean = reinterpret_cast<float*>(trial.tensor(cudnn::kSums));
    auto* const variance = reinterpret_cast<float*>(trial.tensor(cudnn::kProducts));
    cuda::StatisticsOfSums(stream, problem.y, mean, variance, mean, variance);
  });
  return best == 0 ? plans.size() : best - 1;
}

Choice Choose(const ConvolutionProblem& problem, const KernelQuery& query);

// Engines that take sums are of an older kind than the fastest convolutions: only time tells which is better.
Choice ChooseWithSums(const ConvolutionProblem& problem, const KernelQuery& query, std::vector<cudnn::Plan> plans,
                      const std::string& name) {
  ConvolutionProblem plain = problem;
  plain.statistics = plain.gradient_sums = plain.sum = plain.mask = false;
  Choice alone = Choose(plain, query);
  if (!alone.plan) return alone;
  const size_t best = FastestWithSums(problem, *alone.plan, plans, query.device);
  if (best == plans.size()) {
    KeepChoice(name, kApart);
    return {{}, false, kSweepIsFaster};
  }
  KeepChoice(name, StrCat(kFused, cudnn::TextOf(plans[best])));
  return {std::move(plans[best]), true, {}};
}

// The index of the fastest of the plans, which is kept for the next time; of the first, and nothing kept, if the GPU
// has no room to try them.
size_t FastestKept(const ConvolutionProblem& problem, bool fused, const std::vector<cudnn::Plan>& plans,
                   const Device& device, const std::string& name) {
  try {
    const size_t best = cudnn::FastestPlan(plans, TensorsOf(problem, fused), device);
    KeepChoice(name, StrCat(fused ? kFused : "", cudnn::TextOf(plans[best])));
    return best;
  } catch (const Error&) {
    return 0;
  }
}

// Plans that take sums, of each form that there is some; none where no engine does, and why.
std::vector<cudnn::Plan> PlansWithSums(const ConvolutionProblem& problem, const cudnn::Target& target,
                                       const cudnn::PlanRules& rules, std::string& refusal) {
  std::vector<cudnn::Plan> plans;
  for (const auto form : {cudnn::StatisticsForm::kOperation, cudnn::StatisticsForm::kReductions}) {
    const bool is_compiled = form == cudnn::StatisticsForm::kReductions;
    if (!problem.statistics && !is_compiled) continue;
    try {
      const cudnn::ConvolutionGraph graph(problem, true, target, form);
      const size_t most = is_compiled ? kCompiled : kTried / 2;
      for (cudnn::Plan& plan : cudnn::FindPlans(graph.descriptor(), target, rules, most))
        plans.push_back(std::move(plan));
    } catch (const Error& error) {
      refusal = error.what();
    }
  }
  return plans;
}

// The plan that an earlier search kept, cuDNN's first, or where plans may be timed the fastest of its first few, which
// is kept for the next time.
Choice Choose(const ConvolutionProblem& problem, const KernelQuery& query) {
  const cudnn::Target target{cudnn::Handle::Of(query.device).get()};
  const cudnn::PlanRules rules{.deterministic = query.deterministic,
                               .may_round = query.allows_tf32 || problem.x.dtype != DType::kFloat32,
                               .most_workspace_bytes = kMostWorkspaceBytes};
  const std::string name =
      cuda::ChoiceName("cudnn", cudnn::Functions().get_version(), query.device, KeyOf(problem, query));
  std::string refusal = "cuDNN has no engine for it";
  try {
    Choice kept = query.times_plans ? Kept(name, target, rules) : Choice();
    if (kept.plan || !kept.refusal.empty()) return kept;
  } catch (const Error&) {
    // The kept choice is of no use here: a plan is found anew.
  }
  if (problem.has_sums()) {
    if (!query.times_plans) return {{}, false, "nothing is timed, so a sweep of their own takes the sums"};
    std::vector<cudnn::Plan> plans = PlansWithSums(problem, target, rules, refusal);
    return plans.empty() ? Choice{{}, false, refusal} : ChooseWithSums(problem, query, std::move(plans), name);
  }
  for (const bool fused : {true, false}) {
    if (fused && !problem.bias) continue;  // no engine fuses a sum or a ReLU alone
    try {
      const cudnn::ConvolutionGraph graph(problem, fused, target);
      std::vector<cudnn::Plan> plans =
          cudnn::FindPlans(graph.descriptor(), target, rules, query.times_plans ? kTried : 1);
      if (plans.empty()) continue;
      const size_t best = query.times_plans ? FastestKept(problem, fused, plans, query.device, name) : 0;
      return {std::move(plans[best]), fused, {}};
    } catch (const Error& error) {
      refusal = error.what();
    }
  }
  return {{}, false, refusal};
}

// Made once for each problem: a layer is asked about several times, and nets repeat their layers.
const Choice& ChoiceOf(const KernelQuery& query) {
  static std::mutex mutex;
  // Never destroyed: when the process ends cuDNN's parts may be gone before it.
  static auto& choices = *new std::map<std::string, Choice>();
  const ConvolutionProblem problem = cudnn::ConvolutionOf(query);
  const std::scoped_lock lock(mutex);
  const std::string key = StrCat(KeyOf(problem, query), query.times_plans ? " timed" : "");
  const auto it = choices.find(key);
  return it != choices.end() ? it->second : choices.emplace(key, Choose(problem, query)).first->second;
}

// Plan and graph are shared by all layers with the same problem; a kernel adds the addresses (cuDNN's variant pack) and
// the steps that no engine has fused.
class ConvolutionKernel final : public BoundKernel {
 public:
  explicit ConvolutionKernel(const KernelQuery& query)
      : problem_(cudnn::ConvolutionOf(query)), choice_(ChoiceOf(query)), handle_(cudnn::Handle::Of(query.device)) {
    implementation_ = StrCat("cudnn ", choice_.plan->engine);
    if (problem_.has_epilogue() && !choice_.is_fused) implementation_ += ", epilogue apart";
    const bool has_bias_gradient = HasBiasGradient(query.outputs.size());
    if (has_bias_gradient) more_bytes_ = cuda::ChannelSumScratch(problem_.y);
    if (problem_.statistics) more_bytes_ = 2 * PaddedSumBytes();
    // The summand may lie where y does: the sum of products may not be written there before it is read.
    if (SumsApart()) more_bytes_ = problem_.y.Bytes();
    if (problem_.TransposesWeights()) more_bytes_ = problem_.w.Bytes();
  }

  int64_t scratch_bytes() const override { return Workspace() + more_bytes_; }
  std::string_view implementation() const override { return implementation_; }

  // Addresses do not change from run to run, so cuDNN's pack of them is made once here.
  void Bind(const KernelArgs& args) override {
    BoundKernel::Bind(args);
    std::vector<std::pair<int64_t, void*>> tensors;
    const auto add = [&](int64_t id, const void* pointer) { tensors.emplace_back(id, const_cast<void*>(pointer)); };
    switch (problem_.pass) {
      case cudnn::ConvolutionPass::kForward:
        add(cudnn::kX, in<void>(0));
        add(cudnn::kW, in<void>(1));
        add(cudnn::kY, Products());
        if (choice_.is_fused && problem_.bias) add(cudnn::kBias, in<void>(2));
        if (choice_.is_fused && problem_.sum) add(cudnn::kSummand, in<void>(input_count() - 1));
        if (problem_.statistics) add(cudnn::kSums, Sums());
        if (problem_.statistics) add(cudnn::kProducts, Squares());
        break;
      case cudnn::ConvolutionPass::kBackwardData:
        add(cudnn::kY, in<void>(0));
        add(cudnn::kW, problem_.TransposesWeights() ? scratch<void>(Workspace()) : in<void>(1));
        add(cudnn::kX, out<void>(0));
        if (problem_.sum) add(cudnn::kSummand, in<void>(3));
        if (problem_.mask) add(cudnn::kMask, in<void>(input_count() - 1));
        if (problem_.gradient_sums) add(cudnn::kNormInput, in<void>(2));
        if (problem_.gradient_sums) add(cudnn::kSums, out<void>(1));
        if (problem_.gradient_sums) add(cudnn::kProducts, out<void>(2));
        break;
      case cudnn::ConvolutionPass::kBackwardWeights:
        add(cudnn::kX, in<void>(0));
        add(cudnn::kY, in<void>(1));
        add(cudnn::kW, out<void>(0));
        break;
    }
    pack_.emplace(cudnn::MakePack(tensors, cuda::WorkspaceIn(scratch<std::byte>())));
  }

  void Run() override {
    if (problem_.TransposesWeights()) Transpose(stream(), problem_, in<void>(1), scratch<void>(Workspace()));
    handle_.Execute(stream().native(), choice_.plan->descriptor, *pack_);
    if (problem_.has_epilogue() && !choice_.is_fused) {
      cuda::AddEpilogue(stream(), problem_.y, Products(), problem_.sum ? in<void>(input_count() - 1) : nullptr,
                        problem_.bias ? in<void>(2) : nullptr, problem_.relu, out<void>(0));
    }
    if (problem_.statistics) {
      cuda::StatisticsOfSums(stream(), problem_.y, Sums(), Squares(), out<float>(1), out<float>(2));
    } else if (HasBiasGradient(output_count())) {
      cuda::SumChannels(stream(), problem_.y, in<void>(1), out<void>(1), scratch<std::byte>(Workspace()));
    }
  }

 private:
  int64_t Workspace() const { return RoundUp(cuda::WorkspaceRoom(choice_.plan->workspace_bytes), 64).value(); }
  bool HasBiasGradient(size_t outputs) const {
    return problem_.pass == cudnn::ConvolutionPass::kBackwardWeights && outputs == 2;
  }
  bool SumsApart() const { return problem_.has_epilogue() && problem_.sum && !choice_.is_fused; }
  // For cuDNN's statistics, a float a channel each, on addresses that its tensors may have.
  int64_t PaddedSumBytes() const { return RoundUp(SumBytes(problem_), 64).value(); }
  float* Sums() const { return scratch<float>(Workspace()); }
  float* Squares() const { return scratch<float>(Workspace() + PaddedSumBytes()); }
  // Where the forward pass's sums of products go.
  void* Products() const { return SumsApart() ? static_cast<void*>(scratch<std::byte>(Workspace())) : out<void>(0); }

  ConvolutionProblem problem_;
  const Choice& choice_;
  cudnn::Handle& handle_;
  std::string implementation_;
  int64_t more_bytes_ = 0;
  std::optional<cudnn::Descriptor> pack_;
};

std::string Refuse(const KernelQuery& query) {
  if (std::string reason = cudnn::Refusal(query.device); !reason.empty()) return reason;
  // Sums have a type of their own.
  const std::string& op = query.node.op->name;
  const bool takes_gradient_sums = op == "convolution_backward_data_sums";
  const bool takes_sums = takes_gradient_sums || op == "convolution_statistics";
  for (const auto& types : {query.inputs, takes_sums ? query.outputs.first(1) : query.outputs}) {
    for (const TensorType& type : types) {
      if (type.dtype != query.inputs[0].dtype) return "the tensors are not of one type";
      if (type.shape.Count() == 0) return StrCat("the tensor ", type.ToString(), " is empty");
      if (!IsPlainOrChannelsLast(type))
        return StrCat("it takes plain tensors and channels last, not ", type.ToString());
    }
  }
  if (query.inputs[0].shape.rank() > 5) return "it has up to three spatial axes";
  if (takes_gradient_sums && BytesOf(query.inputs[0].dtype) != 2)
    return "its sums are exact enough for half types alone";
  // Layouts are asked about that no kernel will have: only what is made is timed, but sums are worth it or not.
  KernelQuery asked = query;
  asked.times_plans = query.times_plans && takes_sums;
  return ChoiceOf(asked).refusal;
}

// Tensor cores read channels last; float32 without them lies as its input does.
std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  const TensorType& x = query.inputs[0];
  const bool is_exact = x.dtype == DType::kFloat64 || (x.dtype == DType::kFloat32 && !query.allows_tf32);
  if (is_exact && x.layout.is_plain()) return LayoutProposal{PlainLayouts(query.inputs), PlainLayouts(query.outputs)};
  const auto last = [&](std::span<const TensorType> types) {
    std::vector<Layout> layouts;
    for (const TensorType& type : types) {
      const bool is_image = type.shape.rank() == x.shape.rank() && type.shape.rank() > 2;
      layouts.push_back(is_image ? ChannelsLast(type.shape.rank()) : Layout{});
    }
    return layouts;
  };
  return LayoutProposal{last(query.inputs), last(query.outputs)};
}

KernelDef Row(std::string op) {
  return {.name = "cudnn",
          .op = std::move(op),
          .device = DeviceKind::kCuda,
          .refuse = Refuse,
          .propose = Propose,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<ConvolutionKernel>(query);
          }};
}

}  // namespace

KernelDef CudnnConvolution() { return Row("convolution"); }
KernelDef CudnnConvolutionBackwardData() { return Row("convolution_backward_data"); }
KernelDef CudnnConvolutionBackwardWeights() { return Row("convolution_backward_weights"); }
KernelDef CudnnConvolutionBackwardDataSums() { return Row("convolution_backward_data_sums"); }
KernelDef CudnnConvolutionStatistics() { return Row("convolution_statistics"); }

}  // namespace moka
