// Kernels of single-shot detection: what the references do, on float32, images shared out among threads.
#include <algorithm>
#include <utility>

#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "graph/op.h"
#include "layers/forks/ssd/ops/detection.h"
#include "layers/forks/ssd/ops/evaluation.h"
#include "layers/forks/ssd/ops/multibox_batch.h"
#include "layers/forks/ssd/ops/prior_box.h"
#include "layers/kernels/bound_kernel.h"

namespace moka {
namespace {

std::string Refuse(const KernelQuery& query) {
  for (const TensorType& type : query.inputs) {
    if (type.dtype != DType::kFloat32) return StrCat("it works on float32, not ", type.ToString());
  }
  return RefuseUnlessPlain(query);
}

// Calls f(worker, image) for every image, images shared out among `workers`; each worker is with one thread at a time,
// however many there are when it runs.
template <class F>
void ForEachImage(int64_t images, size_t workers, F&& f) {
  const auto parts = static_cast<int64_t>(workers);
  ParallelFor(parts, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t part = begin; part < end; ++part) {
      for (int64_t i = images * part / parts; i < images * (part + 1) / parts; ++i) f(static_cast<size_t>(part), i);
    }
  });
}
size_t WorkersFor(int64_t images) { return static_cast<size_t>(std::clamp<int64_t>(ThreadCount(), 1, images)); }

std::vector<Shape> ShapesOf(std::span<const TensorType> types) {
  std::vector<Shape> shapes;
  for (const TensorType& type : types) shapes.push_back(type.shape);
  return shapes;
}

class MultiboxMatchKernel final : public BoundKernel {
 public:
  MultiboxMatchKernel(const MultiboxSettings& settings, std::span<const Shape> shapes)
      : batch_(settings, shapes),
        matchers_(WorkersFor(batch_.items()), MultiboxMatcher(settings)),
        matches_(static_cast<size_t>(batch_.items())) {}

  bool CanFault() const override { return true; }
  std::string TakeFault() override { return batch_.TakeFault(); }

  void Run() override {
    inputs_.clear();
    for (size_t i = 0; i < input_count(); ++i) inputs_.emplace_back(in<float>(i));
    batch_.Read(inputs_);
    const MultiboxTargets targets{RealsOut(out<float>(0)), RealsOut(out<float>(1)), RealsOut(out<float>(2))};
    ForEachImage(batch_.items(), matchers_.size(), [&](size_t worker, int64_t i) {
      matches_[static_cast<size_t>(i)] = batch_.Match(matchers_[worker], i, targets);
    });
    int64_t sum = 0;
    for (const int64_t matches : matches_) sum += matches;
    *out<float>(3) = static_cast<float>(sum);
  }

 private:
  MultiboxBatch batch_;
  std::vector<MultiboxMatcher> matchers_;  // one a worker
  std::vector<int64_t> matches_;           // of each image
  std::vector<Reals> inputs_;
};

class DetectionOutputKernel final : public BoundKernel {
 public:
  DetectionOutputKernel(const DetectionSettings& settings, std::span<const Shape> shapes, int64_t rows)
      : priors_(shapes[2].Count() / 8),
        rows_(rows),
        width_(settings.row_width()),
        detectors_(WorkersFor(shapes[0][0]), Detector(settings)),
        found_(static_cast<size_t>(shapes[0][0])) {
    for (const Shape& shape : shapes) per_image_.push_back(shape.Count() / shapes[0][0]);
  }

  void Run() override {
    ReadPriors(Reals(in<float>(2)), priors_, boxes_, variances_);
    ForEachImage(static_cast<int64_t>(found_.size()), detectors_.size(), [&](size_t worker, int64_t i) {
      detectors_[worker].Detect({Input(0, i), Input(1, i), Input(3, i), Input(4, i)}, boxes_, variances_,
                                found_[static_cast<size_t>(i)]);
    });
    WriteDetections(found_, rows_, width_, RealsOut(out<float>(0)));
  }

 private:
  Reals Input(size_t n, int64_t image) const {
    return n < input_count() ? Reals(in<float>(n)).From(image * per_image_[n]) : Reals();
  }

  int64_t priors_;
  int64_t rows_;
  int64_t width_;
  std::vector<int64_t> per_image_;
  std::vector<Box> boxes_;
  std::vector<BoxCode> variances_;
  std::vector<Detector> detectors_;            // one a worker
  std::vector<std::vector<Detection>> found_;  // in each image
};

class DetectionEvaluateKernel final : public BoundKernel {
 public:
  DetectionEvaluateKernel(const EvaluationSettings& settings, int64_t rows, int64_t truth_rows)
      : evaluator_(settings), rows_(rows), truth_rows_(truth_rows) {}

  void Run() override {
    evaluator_.Evaluate(Reals(in<float>(0)), rows_, Reals(in<float>(1)), truth_rows_, RealsOut(out<float>(0)));
  }

 private:
  DetectionJudge evaluator_;
  int64_t rows_;
  int64_t truth_rows_;
};

// The boxes never change, but the output lies in the program's arena, where other values overwrite it.
class PriorBoxKernel final : public BoundKernel {
 public:
  PriorBoxKernel(const Attributes& attributes, int64_t count) : values_(static_cast<size_t>(count)) {
    FillPriorBoxes(attributes, RealsOut(values_.data()));
  }
  void Run() override { std::ranges::copy(values_, out<float>(0)); }

 private:
  std::vector<float> values_;
};

}  // namespace

KernelDef MokaDetectionEvaluate() {
  return {.name = "moka",
          .op = "detection_evaluate",
          .refuse = Refuse,
          .make = [](const KernelQuery& q) -> std::unique_ptr<Kernel> {
            return std::make_unique<DetectionEvaluateKernel>(EvaluationSettings::Of(q.node.attributes),
                                                             q.inputs[0].shape[2], q.inputs[1].shape[2]);
          }};
}

KernelDef MokaDetectionOutput() {
  return {.name = "moka",
          .op = "detection_output",
          .refuse = Refuse,
          .make = [](const KernelQuery& q) -> std::unique_ptr<Kernel> {
            return std::make_unique<DetectionOutputKernel>(DetectionSettings::Of(q.node.attributes), ShapesOf(q.inputs),
                                                           q.outputs[0].shape[2]);
          }};
}

KernelDef MokaMultiboxMatch() {
  return {.name = "moka",
          .op = "multibox_match",
          .refuse = Refuse,
          .make = [](const KernelQuery& q) -> std::unique_ptr<Kernel> {
            return std::make_unique<MultiboxMatchKernel>(MultiboxSettings::Of(q.node.attributes), ShapesOf(q.inputs));
          }};
}

KernelDef MokaPriorBox() {
  return {
      .name = "moka", .op = "prior_box", .refuse = Refuse, .make = [](const KernelQuery& q) -> std::unique_ptr<Kernel> {
        return std::make_unique<PriorBoxKernel>(q.node.attributes, q.outputs[0].shape.Count());
      }};
}

}  // namespace moka
