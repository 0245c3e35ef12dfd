// reduce_sum by the tile interpreter, accumulating in double. The last dimensions of memory decide how a tile is added:
//   kWhole    [.. | R summed]           the tile into one number             (norms, rows)
//   kPeriodic [.. | Q summed, P kept]   the tile into a tile, folded by P    (channels of blocked or channels-last)
//   kKept     [.. | P kept]             the tile into a tile                 (sums over the first axis)
//   kRuns     [.. | K kept, R summed]   each short run into one number       (small planes)
// Work is split into items (kept index, chunk of what is summed) by sizes alone, so the bits do not depend on threads.
#include <algorithm>
#include <array>

#include "core/text.h"
#include "core/threads/parallel.h"
#include "graph/graph.h"
#include "graph/kernel.h"
#include "layers/kernels/cpu/tiles/expression_kernel.h"
#include "layers/kernels/cpu/tiles/tile_engine.h"

namespace moka {
namespace {

using tile::kLanes;
using tile::kTileLength;

constexpr int64_t kShortRun = 128;
constexpr int64_t kLeastRow = 256;
constexpr int64_t kMostItems = 64;     // chunks are made until there are so many items
constexpr int64_t kLeastChunk = 8192;  // elements
constexpr int64_t kGrain = int64_t{1} << 14;

enum class Mode : uint8_t { kWhole, kPeriodic, kKept, kRuns };

// Sums a short run in four chains.
template <class T>
double SumRun(const T* x, int64_t n) {
  double s0 = 0;
  double s1 = 0;
  double s2 = 0;
  double s3 = 0;
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    s0 += static_cast<double>(x[i]);
    s1 += static_cast<double>(x[i + 1]);
    s2 += static_cast<double>(x[i + 2]);
    s3 += static_cast<double>(x[i + 3]);
  }
  for (; i < n; ++i) s0 += static_cast<double>(x[i]);
  return (s0 + s1) + (s2 + s3);
}

tile::EngineSpec SpecOf(const KernelQuery& query) {
  const Shape shape = CommonShape(query.inputs);
  return {.expression = Expression::Parse(query.node.attributes.String("expr")),
          .inputs = {query.inputs.begin(), query.inputs.end()},
          .layout = CommonLayout(query.inputs, shape),
          .shape = shape,
          .stores = false,
          .outputs = {},
          .extra = query.outputs[0].shape};
}

template <class T>
class ReduceSumKernel final : public Kernel {
 public:
  explicit ReduceSumKernel(const KernelQuery& query)
      : result_shape_(query.outputs[0].shape), engine_(SpecOf(query)), functions_(tile::FunctionsHere<T>()) {
    const tile::EngineSpec spec = SpecOf(query);
    padded_result_ = tile::PaddedLike(result_shape_, spec.layout);
    count_ = engine_.walk().Count();
    ChooseMode();
    ChooseItems();
    // The plain sum over the rows of a matrix (a bias's gradient) skips the interpreter and reads x in place.
    sums_rows_ = mode_ == Mode::kKept && engine_.walk().dims() == 2 && !IsKept(0) &&
                 spec.expression == Expression::Parse("x0") && spec.inputs[0].dtype == DTypeOf<T>::value;
    const auto operations = static_cast<int64_t>(spec.expression.instructions().size()) + 1;
    const int64_t most = std::min<int64_t>(ThreadCount(), items());
    parts_ = static_cast<int>(std::clamp<int64_t>(count_ * operations / kGrain, 1, std::max<int64_t>(1, most)));
  }

  void Bind(const KernelArgs& args) override {
    input_ = static_cast<const T*>(args.inputs[0].raw());
    output_ = static_cast<T*>(args.outputs[0].raw());
    engine_.Bind(args.inputs, {}, args.scratch);
    sums_ = static_cast<double*>(static_cast<void*>(args.scratch + engine_.scratch_bytes(parts_)));
    partial_ = sums_ + parts_ * kPartDoubles;
  }
  int64_t scratch_bytes() const override {
    const int64_t partials = chunks_ > 1 ? items() * width_ : 0;
    return engine_.scratch_bytes(parts_) + (parts_ * kPartDoubles + partials) * int64_t{sizeof(double)};
  }
  std::string_view implementation() const override { return functions_.name; }

  void Run() override {
    if (count_ == 0) {
      std::fill_n(output_, result_shape_.Count(), T{0});
      return;
    }
    engine_.Prepare();
    ParallelFor(parts_, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t part = begin; part < end; ++part) RunPart(part);
    });
    if (chunks_ == 1) return;
    for (int64_t kept = 0; kept < kept_items_; ++kept) {
      double* first = partial_ + kept * chunks_ * width_;
      for (int64_t c = 1; c < chunks_; ++c) {
        for (int64_t j = 0; j < width_; ++j) first[j] += first[c * width_ + j];
      }
      Write(kept, first);
    }
  }

 private:
  using Index = std::array<int64_t, Shape::kMaxRank + Layout::kMaxBlocks>;
  // A part has room for its sums and for the tile that a constant is spread over.
  static constexpr int64_t kPartDoubles = 2 * kTileLength;

  bool IsKept(int d) const { return engine_.extra_strides()[static_cast<size_t>(d)] != 0; }
  int64_t Extent(int d) const { return engine_.walk().extents[static_cast<size_t>(d)]; }
  int64_t items() const { return kept_items_ * chunks_; }

  // Modes by the fastest dimensions: kWhole, a long run is summed; kRuns, short runs are summed, many to a tile;
  // kPeriodic, a short kept dimension repeats under a summed one (channels last); kKept, a long kept dimension has a
  // sum an element.
  void ChooseMode() {
    const int dims = engine_.walk().dims();
    const int last = dims - 1;
    if (dims == 0 || !IsKept(last)) {
      if (dims >= 2 && IsKept(last - 1) && Extent(last) < kShortRun) {
        mode_ = Mode::kRuns;
        period_ = Extent(last);
        return engine_.SetRow(2, period_);
      }
      int row = std::min(1, dims);
      while (row > 0 && row < dims && !IsKept(last - row) && engine_.walk().RowLength(row) < kLeastRow) ++row;
      return engine_.SetRow(row, 1);
    }
    if (dims >= 2 && !IsKept(last - 1) && Extent(last) <= kTileLength / 2) {
      mode_ = Mode::kPeriodic;
      period_ = Extent(last);
      return engine_.SetRow(2, period_);
    }
    mode_ = Mode::kKept;
    engine_.SetRow(1, 1);
  }

  // Work is cut into items that own their sums: kept indices first and, where those are few, chunks of the summed ones.
  // The cut depends on shapes alone and chunks are added in order, so the bits do not depend on the number of threads.
  void ChooseItems() {
    if (count_ == 0) return;
    const bool is_segmented = mode_ == Mode::kKept || mode_ == Mode::kRuns;
    segments_ = is_segmented ? engine_.tiles_per_row() : 1;
    tiles_ = is_segmented ? 1 : engine_.tiles_per_row();
    kept_items_ = segments_;
    units_ = tiles_;
    for (int d = 0; d < engine_.outer_dims(); ++d) (IsKept(d) ? kept_items_ : units_) *= Extent(d);
    const int64_t longest = std::min(engine_.tile_length(), engine_.row_length());
    if (mode_ == Mode::kPeriodic) width_ = period_;
    if (mode_ == Mode::kKept) width_ = longest;
    if (mode_ == Mode::kRuns) width_ = longest / period_;
    const int64_t worth = std::max<int64_t>(1, count_ / kept_items_ / kLeastChunk);
    chunks_ = std::min({std::max<int64_t>(1, kMostItems / kept_items_), worth, units_});
  }

  // Spreads a number over the outer dimensions that are kept, or over those that are summed.
  void Decode(int64_t number, bool kept, Index& index) const {
    for (int d = engine_.outer_dims() - 1; d >= 0; --d) {
      if (IsKept(d) != kept) continue;
      index[static_cast<size_t>(d)] = number % Extent(d);
      number /= Extent(d);
    }
  }

  void RunPart(int64_t part) {
    auto state = engine_.StateOf(static_cast<int>(part));
    double* sums = sums_ + part * kPartDoubles;
    T* spread = static_cast<T*>(static_cast<void*>(sums + kTileLength));
    for (int64_t item = items() * part / parts_; item < items() * (part + 1) / parts_; ++item) {
      std::fill_n(sums, kTileLength, 0.0);
      RunItem(state, item, sums, spread);
      Fold(sums);
      if (chunks_ == 1) {
        Write(item, sums);
      } else {
        std::copy_n(sums, width_, partial_ + item * width_);
      }
    }
  }

  // The tiles of an item are walked in order; a row is entered only when the next tile lies in another.
  void RunItem(typename tile::TileEngine<T>::State& state, int64_t item, double* sums, T* spread) {
    const int64_t kept = item / chunks_;
    const int64_t chunk = item % chunks_;
    if (sums_rows_) return SumRows(kept, chunk, sums);
    Index index{};
    Decode(kept / segments_, true, index);
    const auto outer = static_cast<size_t>(engine_.outer_dims());
    int64_t entered = -1;
    for (int64_t unit = units_ * chunk / chunks_; unit < units_ * (chunk + 1) / chunks_; ++unit) {
      if (unit / tiles_ != entered) {
        entered = unit / tiles_;
        Decode(entered, false, index);
        engine_.EnterRow(state, {index.data(), outer});
      }
      // A kept tile is the item's own; summed tiles are numbered through the units.
      const int64_t tile = segments_ > 1 ? kept % segments_ : unit % tiles_;
      const int64_t begin = tile * engine_.tile_length();
      const int64_t n = std::min(engine_.tile_length(), engine_.row_length() - begin);
      engine_.Evaluate(state, begin, n);
      const T* values = engine_.result(state);
      if (engine_.is_scalar()) {
        std::fill_n(spread, n, *values);
        values = spread;
      }
      Accumulate(values, n, sums);
    }
  }

  // A tile's columns of a matrix as it lies, which needs no interpreter.
  void SumRows(int64_t segment, int64_t chunk, double* sums) const {
    const int64_t first = units_ * chunk / chunks_;
    const int64_t begin = segment * engine_.tile_length();
    const int64_t columns = engine_.row_length();
    functions_.add(input_ + first * columns + begin, columns, units_ * (chunk + 1) / chunks_ - first,
                   std::min(engine_.tile_length(), columns - begin), sums);
  }

  void Accumulate(const T* values, int64_t n, double* sums) const {
    switch (mode_) {
      case Mode::kWhole: return functions_.sum(values, n, sums);
      case Mode::kPeriodic:
      case Mode::kKept: return functions_.add(values, 0, 1, n, sums);
      case Mode::kRuns:
        for (int64_t j = 0; j < n / period_; ++j) sums[j] += SumRun(values + j * period_, period_);
    }
  }

  // Folds the many sums that a mode leaves into the first width_ of them.
  void Fold(double* sums) const {
    if (mode_ == Mode::kWhole) {
      for (int64_t half = kLanes / 2; half > 0; half /= 2) {
        for (int64_t j = 0; j < half; ++j) sums[j] += sums[j + half];
      }
    }
    if (mode_ != Mode::kPeriodic) return;
    const int64_t length = std::min(engine_.tile_length(), engine_.row_length());
    for (int64_t i = period_; i < length; ++i) sums[i % period_] += sums[i];
  }

  // The sums of a kept item into the result.
  void Write(int64_t kept, const double* sums) {
    Index index{};
    Decode(kept / segments_, true, index);
    const std::vector<int64_t>& strides = engine_.extra_strides();
    int64_t base = 0;
    for (int d = 0; d < engine_.outer_dims(); ++d) {
      if (IsKept(d)) base += index[static_cast<size_t>(d)] * strides[static_cast<size_t>(d)];
    }
    const int64_t begin = kept % segments_ * engine_.tile_length();
    int64_t first = 0;  // of the kept dimension in the row
    int64_t length = width_;
    int64_t stride = mode_ == Mode::kWhole ? 0 : strides.back();
    if (mode_ == Mode::kKept) {
      first = begin;
      length = std::min(width_, engine_.row_length() - begin);
    }
    if (mode_ == Mode::kRuns) {
      first = begin / period_;
      length = std::min(width_, engine_.row_length() / period_ - first);
      stride = strides[strides.size() - 2];
    }
    for (int64_t j = 0; j < length; ++j) Put(base + (first + j) * stride, sums[j]);
  }

  // offset: in the padded result; what lies in the padding is dropped.
  void Put(int64_t offset, double value) {
    if (padded_result_ != result_shape_) {
      int64_t real = 0;
      int64_t real_stride = 1;
      for (int axis = result_shape_.rank() - 1; axis >= 0; --axis) {
        const int64_t at = offset % padded_result_[axis];
        if (at >= result_shape_[axis]) return;
        offset /= padded_result_[axis];
        real += at * real_stride;
        real_stride *= result_shape_[axis];
      }
      offset = real;
    }
    output_[offset] = static_cast<T>(value);
  }

  Shape result_shape_;
  Shape padded_result_;
  tile::TileEngine<T> engine_;
  const tile::TileFunctions<T>& functions_;
  Mode mode_ = Mode::kWhole;
  int64_t count_ = 0;       // elements summed
  int64_t period_ = 1;      // P of kPeriodic, R of kRuns
  int64_t segments_ = 1;    // tiles of a row that are kept apart
  int64_t tiles_ = 1;       // tiles of a row that are summed
  int64_t kept_items_ = 1;  // kept outer indices times segments
  int64_t units_ = 1;       // summed outer indices times tiles
  int64_t chunks_ = 1;      // of the units of one kept item
  int64_t width_ = 1;       // sums of a kept item
  bool sums_rows_ = false;  // the columns of one input
  int parts_ = 1;
  const T* input_ = nullptr;
  T* output_ = nullptr;
  double* sums_ = nullptr;     // [parts, kPartDoubles]
  double* partial_ = nullptr;  // [kept_items, chunks, width]
};

// Whether the expression is 0 where every dense input is 0, as in the padding.
bool IsZeroAtZero(const tile::EngineSpec& spec) {
  std::vector<Expression> values;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const bool is_dense = spec.inputs[i].shape == spec.shape;
    values.push_back(Expression::Parse(is_dense ? "0" : "x" + std::to_string(i)));
  }
  return spec.expression.Substitute(values) == Expression::Parse("0");
}

bool SumsPadding(const tile::EngineSpec& spec) {
  for (int axis = 0; axis < spec.shape.rank(); ++axis) {
    const bool is_padded = spec.shape[axis] % spec.layout.BlockOf(axis) != 0;
    if (is_padded && spec.extra[axis] == 1) return true;
  }
  return false;
}

std::string Refuse(const KernelQuery& query) {
  const tile::EngineSpec spec = SpecOf(query);
  if (!query.outputs[0].layout.is_plain()) return "writes the plain layout only";
  if (SumsPadding(spec) && (spec.expression.IsRandom() || !IsZeroAtZero(spec))) {
    return "would sum the padding of a blocked layout";
  }
  if (IsHalf(query.outputs[0].dtype))
    return StrCat("sums are float32 and float64, not ", NameOf(query.outputs[0].dtype));
  return RefuseOperands(query.inputs, query.outputs, spec.shape, spec.layout);
}

std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  const tile::EngineSpec spec = SpecOf(query);
  const bool reads_padding = SumsPadding(spec) && (spec.expression.IsRandom() || !IsZeroAtZero(spec));
  const Layout layout = reads_padding ? Layout{} : spec.layout;
  return LayoutProposal{OperandLayouts(query.inputs, spec.shape, layout), {Layout{}}};
}

std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  if (query.outputs[0].dtype == DType::kFloat64) return std::make_unique<ReduceSumKernel<double>>(query);
  return std::make_unique<ReduceSumKernel<float>>(query);
}

}  // namespace

KernelDef MokaReduceSum() {
  return {.name = "moka",
          .op = "reduce_sum",
          .device = DeviceKind::kCpu,
          .refuse = Refuse,
          .propose = Propose,
          .make = Make};
}

}  // namespace moka
