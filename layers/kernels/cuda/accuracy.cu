// Kernels that find the highest value of a line and whether it is right: accuracy, class_counts and argmax. A line
// leaves its result, and rows of threads count what the lines left, so that no order matters.
#include <cmath>

#include "graph/kernel.h"
#include "layers/kernels/cuda/label_lines.cuh"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/kernels/cuda/row.h"

namespace moka {
namespace {

// Counting classes ----------------------------------------------------------------------------------------------------

// Results of lines in scratch: the class, and whether the line is right or what was predicted.
struct LineResult {
  int32_t label;  // negative: counts for nothing
  int32_t found;
};

// Scores are compared, not sorted: the label is among the best k if at most k scores are not below its own. `!(a < b)`
// counts ties and NaN against the label.
template <class T>
struct AccuracyLine {
  cuda::LineMap lines;
  LabelRule rule;
  int64_t top_k;
  const T* x;
  const float* label;
  LineResult* results;
  cuda::LabelRecord record;

  using State = int64_t;  // classes not below the label's, itself among them
  __host__ __device__ State Start() const { return 0; }
  __host__ __device__ void Add(int64_t line, int64_t c, State& not_below) const {
    const int64_t own = rule.Read(label[line]);
    if (own < 0) return;
    if (!(cuda::ToWide(x[lines.Offset(line, c)]) < cuda::ToWide(x[lines.Offset(line, own)]))) ++not_below;
  }
  __host__ __device__ static void Join(State& s, const State& later) { s += later; }
  __host__ __device__ void Write(int64_t, int64_t, const State&) const {}
  __host__ __device__ void Finish(int64_t line, const State& not_below) const {
    const int64_t own = rule.Read(label[line]);
    if (own == kWrongLabel) record.Report(line, label[line]);
    results[line] = {static_cast<int32_t>(own), not_below <= top_k ? 1 : 0};
  }
};

// The shares of right lines: row c of class c, the last row of all.
template <class W>
struct AccuracyRow {
  int64_t classes;
  const LineResult* results;
  W* all;
  W* per_class;
  struct State {
    int64_t right;
    int64_t valid;
  };
  __host__ __device__ State Start() const { return {0, 0}; }
  __host__ __device__ void Add(int64_t c, int64_t line, State& s) const {
    const LineResult& result = results[line];
    // The last row counts lines of every class.
    if (result.label < 0 || (c < classes && result.label != c)) return;
    Join(s, {result.found, 1});
  }
  __host__ __device__ static void Join(State& s, const State& later) {
    s.right += later.right;
    s.valid += later.valid;
  }
  __host__ __device__ void Write(int64_t, int64_t, const State&) const {}
  __host__ __device__ void Finish(int64_t c, const State& s) const {
    const double share = s.valid == 0 ? 0 : static_cast<double>(s.right) / static_cast<double>(s.valid);
    (c < classes ? per_class[c] : *all) = static_cast<W>(share);
  }
};

// Two launches: lines leave their results in scratch, then rows count them in 64-bit integers, so that no order of
// additions can show.
class AccuracyKernel final : public cuda::LabelKernel {
 public:
  explicit AccuracyKernel(const KernelQuery& query) : LabelKernel(query), top_k_(query.node.attributes.Int("top_k")) {}
  int64_t scratch_bytes() const override { return lines().Count() * int64_t{sizeof(LineResult)}; }
  void Run() override {
    auto* results = scratch<LineResult>();
    cuda::WithFloat(dtype(), [&]<class T>() {
      using W = cuda::Wide<T>;
      cuda::ForEachLine(stream(), lines(),
                        AccuracyLine<T>{lines(), rule(), top_k_, in<T>(0), in<float>(1), results, record()});
      cuda::ForEachRow(stream(), lines().size + 1, lines().Count(),
                       AccuracyRow<W>{lines().size, results, out<W>(0), out<W>(1)});
    });
  }

 private:
  int64_t top_k_;
};

constexpr size_t kMaxIgnored = 8;

// Travels to the GPU inside the functor, hence an array of fixed size and not a vector.
struct IgnoredLabels {
  int count = 0;
  float labels[kMaxIgnored] = {};
  __host__ __device__ bool Has(float label) const {
    for (int i = 0; i < count; ++i) {
      if (labels[i] == label) return true;
    }
    return false;
  }
};

// The predicted class is the last of the highest scores, as on the CPU; index -1 stands for no element at all.
template <class T>
struct PredictLine {
  cuda::LineMap lines;
  LabelRule rule;
  IgnoredLabels ignored;
  const T* x;
  const float* label;
  LineResult* results;
  cuda::LabelRecord record;

  using State = cuda::LineItem<cuda::Wide<T>>;
  __host__ __device__ State Start() const { return {0, -1}; }
  __host__ __device__ void Add(int64_t line, int64_t c, State& s) const {
    Join(s, {cuda::ToWide(x[lines.Offset(line, c)]), c});
  }
  __host__ __device__ static void Join(State& s, const State& other) {
    if (other.index >= 0 && (s.index < 0 || cuda::ComesFirst(other, s))) s = other;
  }
  __host__ __device__ void Write(int64_t, int64_t, const State&) const {}
  __host__ __device__ void Finish(int64_t line, const State& best) const {
    const int64_t own = ignored.Has(label[line]) ? kIgnoredLabel : rule.Read(label[line]);
    if (own == kWrongLabel) record.Report(line, label[line]);
    results[line] = {static_cast<int32_t>(own), static_cast<int32_t>(best.index)};
  }
};

// Every row goes over all lines: classes are few, and a count by atomics would need memory that is cleared first.
struct ClassCountsRow {
  int64_t classes;
  const LineResult* results;
  float* counts;  // [3, classes]
  struct State {
    int64_t hits;
    int64_t labelled;
    int64_t predicted;
  };
  __host__ __device__ State Start() const { return {0, 0, 0}; }
  __host__ __device__ void Add(int64_t c, int64_t line, State& s) const {
    const LineResult& result = results[line];
    if (result.label < 0) return;
    const bool is_labelled = result.label == c;
    const bool is_predicted = result.found == c;
    Join(s, {is_labelled && is_predicted ? 1 : 0, is_labelled ? 1 : 0, is_predicted ? 1 : 0});
  }
  __host__ __device__ static void Join(State& s, const State& later) {
    s.hits += later.hits;
    s.labelled += later.labelled;
    s.predicted += later.predicted;
  }
  __host__ __device__ void Write(int64_t, int64_t, const State&) const {}
  __host__ __device__ void Finish(int64_t c, const State& s) const {
    counts[c] = static_cast<float>(s.hits);
    counts[classes + c] = static_cast<float>(s.labelled);
    counts[2 * classes + c] = static_cast<float>(s.predicted);
  }
};

class ClassCountsKernel final : public cuda::LabelKernel {
 public:
  explicit ClassCountsKernel(const KernelQuery& query) : LabelKernel(query) {
    for (const int64_t label : query.node.attributes.Get<Ints>("ignore")) {
      ignored_.labels[ignored_.count++] = static_cast<float>(label);
    }
  }
  int64_t scratch_bytes() const override { return lines().Count() * int64_t{sizeof(LineResult)}; }
  void Run() override {
    auto* results = scratch<LineResult>();
    cuda::WithFloat(dtype(), [&]<class T>() {
      cuda::ForEachLine(stream(), lines(),
                        PredictLine<T>{lines(), rule(), ignored_, in<T>(0), in<float>(1), results, record()});
    });
    cuda::ForEachRow(stream(), lines().size, lines().Count(), ClassCountsRow{lines().size, results, out<float>(0)});
  }

 private:
  IgnoredLabels ignored_;
};

std::string RefuseCounts(const KernelQuery& query) {
  if (query.node.attributes.Get<Ints>("ignore").size() > kMaxIgnored) {
    return StrCat("it ignores ", kMaxIgnored, " labels at most");
  }
  return cuda::RefuseUnlessLabels(query);
}

// argmax: a round for each of the highest, for top_k is small ---------------------------------------------------------

// The next of a line's highest elements after the one that the round before left.
template <class T, bool first_of_equals>
struct ArgmaxLine {
  using W = cuda::Wide<T>;
  cuda::LineMap lines;
  int64_t round;
  int64_t top_k;
  bool has_axis;
  bool wants_value;
  const T* x;
  T* y;
  cuda::LineItem<W>* last;

  using State = cuda::LineItem<W>;
  __host__ __device__ State Start() const { return {0, -1}; }
  __host__ __device__ void Add(int64_t line, int64_t c, State& s) const {
    const State item{cuda::ToWide(x[lines.Offset(line, c)]), c};
    // Only elements behind the one that the round before left compete.
    if (round == 0 || cuda::ComesFirst(last[line], item, first_of_equals)) Join(s, item);
  }
  __host__ __device__ static void Join(State& s, const State& other) {
    if (other.index >= 0 && (s.index < 0 || cuda::ComesFirst(other, s, first_of_equals))) s = other;
  }
  __host__ __device__ void Write(int64_t, int64_t, const State&) const {}
  __host__ __device__ void Finish(int64_t line, const State& best) const {
    last[line] = best;
    const T value = cuda::Narrow<T>(best.value);
    const T index = cuda::Narrow<T>(static_cast<W>(best.index));
    if (has_axis) {
      y[(line / lines.inner * top_k + round) * lines.inner + line % lines.inner] = wants_value ? value : index;
      return;
    }
    y[(wants_value ? 2 : 1) * line * top_k + round] = index;
    if (wants_value) y[(2 * line + 1) * top_k + round] = value;
  }
};

// Each round is a launch that takes the next highest of every line; without an axis, an image is one line.
class ArgmaxKernel final : public BoundKernel {
 public:
  explicit ArgmaxKernel(const KernelQuery& query)
      : dtype_(query.inputs[0].dtype),
        top_k_(query.node.attributes.Int("top_k")),
        has_axis_(query.node.attributes.Bool("has_axis")),
        wants_value_(query.node.attributes.Bool("out_max_val")),
        first_of_equals_(query.node.attributes.Bool("first_of_equals")) {
    const Shape& x = query.inputs[0].shape;
    lines_ = has_axis_ ? cuda::LinesOf(query) : cuda::LineMap{x[0], x.Count(1, x.rank()), 1};
  }
  int64_t scratch_bytes() const override { return lines_.Count() * int64_t{sizeof(cuda::LineItem<double>)}; }
  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      for (int64_t round = 0; round < top_k_; ++round)
        first_of_equals_ ? Round<T, true>(round) : Round<T, false>(round);
    });
  }

 private:
  template <class T, bool first_of_equals>
  void Round(int64_t round) {
    cuda::ForEachLine(stream(), lines_,
                      ArgmaxLine<T, first_of_equals>{lines_, round, top_k_, has_axis_, wants_value_, in<T>(0),
                                                     out<T>(0), scratch<cuda::LineItem<cuda::Wide<T>>>()});
  }

  cuda::LineMap lines_;
  DType dtype_;
  int64_t top_k_;
  bool has_axis_;
  bool wants_value_;
  bool first_of_equals_;
};

}  // namespace

KernelDef CudaAccuracy() { return cuda::OwnRow<AccuracyKernel>("accuracy", cuda::RefuseUnlessLabels); }
KernelDef CudaClassCounts() { return cuda::OwnRow<ClassCountsKernel>("class_counts", RefuseCounts); }

KernelDef CudaArgmax() {
  return {.name = "moka",
          .op = "argmax",
          .device = DeviceKind::kCuda,
          .refuse = RefuseUnlessPlain,
          .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> {
            return std::make_unique<ArgmaxKernel>(query);
          }};
}

}  // namespace moka
