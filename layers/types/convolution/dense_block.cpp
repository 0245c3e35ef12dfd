// A dense block in one layer (Huang et al., arXiv 1608.06993), as the DenseBlock layer of Tongcheng's Caffe and
// caffe_ocr: each transition normalises, bends and convolves all channels so far and lays its own beside them.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

constexpr double kEps = 1e-5;

struct Block {
  const DenseBlockParameter& p;
  int transitions;
  int64_t growth;
  std::vector<ValueId> blobs = {};  // by index

  ValueId blob(int index) const { return blobs[static_cast<size_t>(index)]; }
};

// The index of the last blob, the weight of the statistics' sums.
int WeightIndex(const Block& block) { return (block.p.use_bc() ? 10 : 5) * block.transitions; }

// Declares all blobs in the order of their indices: for each kind one a transition.
void AddBlobs(LayerBuilder& l, Block& block) {
  const DenseBlockParameter& p = block.p;
  FillerParameter one;
  one.set_value(1);
  const auto add = [&](const Shape& shape, const FillerParameter& filler, ParameterRole role, const char* field) {
    block.blobs.push_back(l.AddBlob(static_cast<int>(block.blobs.size()), shape, filler, role, field));
  };
  const auto add_kind = [&](bool is_middle, int kind) {
    for (int i = 0; i < block.transitions; ++i) {
      const int64_t inputs = l.shape(0)[1] + i * block.growth;
      const int64_t normed = is_middle ? 4 * block.growth : inputs;
      const Shape norm{1, normed, 1, 1};
      const int64_t read = p.use_bc() ? 4 * block.growth : inputs;
      const char* filter = "denseblock_param.Filter_Filler";
      switch (kind) {
        case 0:
          add(is_middle ? Shape{4 * block.growth, inputs, 1, 1} : Shape{block.growth, read, 3, 3}, p.filter_filler(),
              ParameterRole::kWeight, filter);
          break;
        case 1: add(norm, p.bn_scaler_filler(), ParameterRole::kNorm, "denseblock_param.BN_Scaler_Filler"); break;
        case 2: add(norm, p.bn_bias_filler(), ParameterRole::kNorm, "denseblock_param.BN_Bias_Filler"); break;
        case 3: add(norm, {}, ParameterRole::kStatistic, ""); break;
        default: add(norm, one, ParameterRole::kStatistic, "");
      }
    }
  };
  for (int kind = 0; kind < 5; ++kind) add_kind(false, kind);
  for (int kind = 0; p.use_bc() && kind < 5; ++kind) add_kind(true, kind);
  add({1}, {}, ParameterRole::kStatistic, "");
}

void CheckFields(const LayerBuilder& l) {
  const DenseBlockParameter& p = l.param().denseblock_param();
  const std::string name = "denseblock_param.";
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", x.ToString()));
  l.Check(p.numtransition() >= 1 && p.numtransition() <= 1000, name + "numTransition",
          StrCat("numTransition must be from 1 to 1000, found ", p.numtransition()));
  l.Check(p.growthrate() >= 1 && p.growthrate() <= 1 << 20, name + "growthRate",
          StrCat("growthRate must be from 1 to 2^20, found ", p.growthrate()));
  const bool is_3x3 = p.filter_h() == 3 && p.filter_w() == 3 && p.pad_h() == 1 && p.pad_w() == 1 &&
                      p.conv_verticalstride() == 1 && p.conv_horizentalstride() == 1;
  l.Check(is_3x3, name + "filter_H", "the block's convolutions are 3x3 with pad 1 and stride 1");
  l.Check(!p.use_dropout() || p.dropout_amount() == 0 || l.phase() == TEST, name + "use_dropout",
          "DenseBlock's dropout is not supported; give dropout_amount 0");
}

// relu(BN(x) * scale + shift); blobs scale, shift, mean, variance stand at `at` and one kind apart.
ValueId NormalizeAndBend(LayerBuilder& l, const Block& block, ValueId x, int at) {
  const GraphBuilder& b = l.b();
  const int mean_at = at + 2 * block.transitions;
  const int variance_at = at + 3 * block.transitions;
  const ValueId mean = block.blob(mean_at);
  const ValueId variance = block.blob(variance_at);
  const double kept = Finite(l, "denseblock_param.moving_average_fraction", block.p.moving_average_fraction());
  ValueId y = kNoId;
  if (l.phase() == TEST) {
    // The sums are 0 before the first training step.
    const Term weight = Term::Of(b.Reshape(block.blobs.back(), {1, 1, 1, 1}));
    const Term part = Select(weight == 0, 0, 1 / weight);
    const Term deviation = Sqrt(Term::Of(variance) * part + Decimal(kEps));
    y = Computed(b, (Term::Of(x) - Term::Of(mean) * part) / deviation, {x, mean, variance});
  } else {
    const std::vector<ValueId> batch = b.Add("batch_norm", {x}, {{"eps", kEps}});
    const Shape shape = b.shape(mean);
    const auto moved = [&](ValueId sum, ValueId batch_value) {
      return Computed(b, Term::Of(sum) * Decimal(kept) + Term::Of(b.Reshape(batch_value, shape)));
    };
    l.Assign(mean_at, moved(mean, batch[1]));
    l.Assign(variance_at, moved(variance, batch[2]));
    y = batch[0];
  }
  return b.Pointwise("max(x0*x1+x2,0)", {y, block.blob(at), block.blob(at + block.transitions)});
}

ValueId Convolve(const LayerBuilder& l, ValueId x, ValueId w) {
  const int64_t pad = l.b().shape(w)[2] / 2;
  return l.b().Add1("convolution", {x, w},
                    {{"stride", Ints{1, 1}},
                     {"pad_begin", Ints{pad, pad}},
                     {"pad_end", Ints{pad, pad}},
                     {"dilation", Ints{1, 1}},
                     {"groups", int64_t{1}}});
}

void BuildDenseBlock(LayerBuilder& l) {
  CheckFields(l);
  const GraphBuilder& b = l.b();
  const DenseBlockParameter& p = l.param().denseblock_param();
  Block block{p, p.numtransition(), int64_t{p.growthrate()}};
  AddBlobs(l, block);
  const int n = block.transitions;
  ValueId x = l.bottom(0);
  for (int i = 0; i < n; ++i) {
    ValueId y = NormalizeAndBend(l, block, x, n + i);
    if (p.use_bc()) y = NormalizeAndBend(l, block, Convolve(l, y, block.blob(5 * n + i)), 6 * n + i);
    y = Convolve(l, y, block.blob(i));
    x = b.Add1("concat", {x, y}, {{"axis", int64_t{1}}});
  }
  if (l.phase() == TRAIN) {
    const double kept = Finite(l, "denseblock_param.moving_average_fraction", p.moving_average_fraction());
    l.Assign(WeightIndex(block), Computed(b, Term::Of(block.blobs.back()) * Decimal(kept) + 1));
  }
  l.SetTop(0, x);
}

}  // namespace

LayerDef DenseBlockLayer() { return {.type = "DenseBlock", .build = BuildDenseBlock, .params = {"denseblock_param"}}; }

}  // namespace moka
