// pointwise by the tile interpreter (layers/kernels/cpu/tiles/tile_engine.h): one pass over memory whatever the length
// of the expressions. Any layout that the first output and full-shape inputs share; other inputs are plain and
// broadcast, other outputs may lie otherwise (a state's mirror).
#include <algorithm>
#include <array>

#include "core/threads/parallel.h"
#include "graph/graph.h"
#include "graph/kernel.h"
#include "layers/kernels/cpu/tiles/expression_kernel.h"
#include "layers/kernels/cpu/tiles/tile_engine.h"
#include "layers/kernels/group_kernel.h"

namespace moka {
namespace {

constexpr int64_t kLeastRow = 256;            // shorter rows are joined: a row costs some 20 ns to enter
constexpr int64_t kGrain = int64_t{1} << 14;  // element operations worth a thread

// Tiles are numbered through all rows and shared out evenly; a part decodes its first row's index and counts on from
// there, as divisions for every row would cost more than short rows do.
template <class T>
class PointwiseKernel final : public Kernel {
 public:
  explicit PointwiseKernel(const KernelQuery& query) : engine_(SpecOf(query)) {
    const tile::Walk& walk = engine_.walk();
    int row_dims = std::min(1, walk.dims());
    while (row_dims < walk.dims() && walk.RowLength(row_dims) < kLeastRow) ++row_dims;
    engine_.SetRow(row_dims, 1);
    const int64_t row_length = std::max<int64_t>(1, engine_.row_length());
    tiles_ = walk.Count() / row_length * engine_.tiles_per_row();
    const auto operations = static_cast<int64_t>(SpecOf(query).expression.instructions().size());
    parts_ = static_cast<int>(std::clamp<int64_t>(walk.Count() * operations / kGrain, 1, ThreadCount()));
  }

  void Bind(const KernelArgs& args) override {
    outputs_.assign(args.outputs.begin(), args.outputs.end());
    engine_.Bind(args.inputs, args.outputs, args.scratch);
  }
  int64_t scratch_bytes() const override { return engine_.scratch_bytes(parts_); }
  std::string_view implementation() const override { return tile::FunctionsHere<T>().name; }

  void Run() override {
    if (tiles_ == 0) return;
    engine_.Prepare();
    ParallelFor(parts_, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t part = begin; part < end; ++part) RunPart(part);
    });
    for (const Tensor& output : outputs_) {
      tile::ZeroPadding(output.type().layout, output.shape(), BytesOf(output.type().dtype), output.raw());
    }
  }

 private:
  // The walk goes as the first output lies. Outputs that lie otherwise are written tile by tile through a buffer.
  static tile::EngineSpec SpecOf(const KernelQuery& query) {
    tile::EngineSpec spec{.expression = Expression::Parse(query.node.attributes.Get<Strings>("exprs")),
                          .inputs = {query.inputs.begin(), query.inputs.end()},
                          .layout = query.outputs[0].layout,
                          .shape = query.outputs[0].shape,
                          .stores = true,
                          .outputs = {},
                          .extra = query.outputs[0].shape};
    for (const TensorType& output : query.outputs) spec.outputs.push_back(output.dtype);
    for (size_t r = 1; r < query.outputs.size(); ++r) {
      const Layout& layout = query.outputs[r].layout;
      if (layout != spec.layout) spec.repacked.emplace_back(r, layout);
    }
    return spec;
  }

  // Counts on from row to row like an odometer instead of dividing.
  void RunPart(int64_t part) {
    const int64_t first = tiles_ * part / parts_;
    const int64_t last = tiles_ * (part + 1) / parts_;
    auto state = engine_.StateOf(static_cast<int>(part));
    std::array<int64_t, Shape::kMaxRank + Layout::kMaxBlocks> index{};
    const auto outer = static_cast<size_t>(engine_.outer_dims());
    const std::vector<int64_t>& extents = engine_.walk().extents;
    int64_t rest = first / engine_.tiles_per_row();
    for (size_t d = outer; d-- > 0;) {
      index[d] = rest % extents[d];
      rest /= extents[d];
    }
    int64_t tile_in_row = first % engine_.tiles_per_row();
    engine_.EnterRow(state, {index.data(), outer});
    for (int64_t tile = first; tile < last; ++tile) {
      const int64_t begin = tile_in_row * engine_.tile_length();
      engine_.Evaluate(state, begin, std::min(engine_.tile_length(), engine_.row_length() - begin));
      if (++tile_in_row < engine_.tiles_per_row() || tile + 1 == last) continue;
      tile_in_row = 0;
      for (size_t d = outer; d-- > 0;) {
        if (++index[d] < extents[d]) break;
        index[d] = 0;
      }
      engine_.EnterRow(state, {index.data(), outer});
    }
  }

  tile::TileEngine<T> engine_;
  std::vector<Tensor> outputs_;
  int64_t tiles_ = 0;
  int parts_ = 1;
};

// Blocks of two layouts must nest, or a tile could not hold whole blocks of both.
std::string Refuse(const KernelQuery& query) {
  if (query.outputs.empty()) return "there are no outputs";
  const Layout& layout = query.outputs[0].layout;
  for (const TensorType& output : query.outputs) {
    if (output.layout != layout && !tile::CanRepack(layout, output.layout, output.shape)) {
      return "the blocks of the outputs' layouts cut each other";
    }
  }
  return RefuseOperands(query.inputs, query.outputs, query.outputs[0].shape, layout);
}

std::optional<LayoutProposal> Propose(const KernelQuery& query) {
  if (query.outputs.empty()) return std::nullopt;
  const Shape& shape = query.outputs[0].shape;
  const Layout layout = CommonLayout(query.inputs, shape);
  return LayoutProposal{OperandLayouts(query.inputs, shape, layout), std::vector<Layout>(query.outputs.size(), layout)};
}

std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  if (query.outputs[0].dtype == DType::kFloat64) return std::make_unique<PointwiseKernel<double>>(query);
  return std::make_unique<PointwiseKernel<float>>(query);
}

}  // namespace

KernelDef MokaPointwise() {
  return {.name = "moka",
          .op = "pointwise",
          .device = DeviceKind::kCpu,
          .refuse = Refuse,
          .propose = Propose,
          .make = Make};
}

KernelDef MokaPointwiseGroup() { return GroupRow<MokaPointwise>("pointwise_group"); }

}  // namespace moka
