// Batch normalisation without affine part (Ioffe, Szegedy, arXiv 1502.03167), as Caffe keeps its statistics: blobs 0
// and 1 are sums of means and variances that decay by moving_average_fraction, blob 2 is the sum of their weights.
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

struct Statistics {
  ValueId mean;      // [C]
  ValueId variance;  // [C]
  ValueId weight;    // [1]
};

// The statistics are no parameters: old files say lr_mult 0 for them, and nothing else can be meant.
void CheckParams(const LayerBuilder& l) {
  for (int i = 0; i < l.param().param_size(); ++i) {
    l.Check(!l.param().param(i).has_lr_mult() || l.param().param(i).lr_mult() == 0, StrCat("param[", i, "].lr_mult"),
            "the statistics of BatchNorm are not trained: lr_mult must be 0 or absent");
  }
}

// y from the running sums; they are 0 before the first training step, as is then the mean.
ValueId Normalize(const LayerBuilder& l, ValueId x, const Statistics& s, double eps) {
  const GraphBuilder& b = l.b();
  const std::string factor = "select(eq(x1,0),0,1/x1)";
  const ValueId mean = b.Pointwise(StrCat("x0*", factor), {s.mean, s.weight});
  const ValueId inverse = b.Pointwise(StrCat("1/sqrt(x0*", factor, "+", Number(eps), ")"), {s.variance, s.weight});
  const Shape channel = Spread(b.shape(mean), 1, b.shape(x).rank());
  return b.Pointwise("(x0-x1)*x2", {x, b.Reshape(mean, channel), b.Reshape(inverse, channel)});
}

// y from the batch; its unbiased variance joins the running sums.
ValueId NormalizeBatch(LayerBuilder& l, ValueId x, const Statistics& s, double eps) {
  const GraphBuilder& b = l.b();
  const double kept =
      Finite(l, "batch_norm_param.moving_average_fraction", l.param().batch_norm_param().moving_average_fraction());
  const std::vector<ValueId> y = b.Add("batch_norm", {x}, {{"eps", eps}});
  const int64_t count = b.shape(x).Count() / b.shape(s.mean)[0];
  const double unbiased = count > 1 ? static_cast<double>(count) / static_cast<double>(count - 1) : 1;
  l.Assign(0, b.Pointwise(StrCat("x0*", Number(kept), "+x1"), {s.mean, y[1]}));
  l.Assign(1, b.Pointwise(StrCat("x0*", Number(kept), "+x1*", Number(unbiased)), {s.variance, y[2]}));
  l.Assign(2, b.Pointwise(StrCat("x0*", Number(kept), "+1"), {s.weight}));
  return y[0];
}

void Build(LayerBuilder& l) {
  const BatchNormParameter& p = l.param().batch_norm_param();
  CheckParams(l);
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 1, "bottom[0]", "the bottom needs at least one axis");
  const double eps = Finite(l, "batch_norm_param.eps", p.eps());
  l.Check(eps >= 0, "batch_norm_param.eps", StrCat("batch_norm_param.eps must not be negative, found ", eps));
  const int64_t channels = x.rank() == 1 ? 1 : x[1];
  Statistics statistics;
  const FillerParameter zero;
  statistics.mean = l.AddBlob(0, {channels}, zero, ParameterRole::kStatistic);
  statistics.variance = l.AddBlob(1, {channels}, zero, ParameterRole::kStatistic);
  statistics.weight = l.AddBlob(2, {1}, zero, ParameterRole::kStatistic);
  const ValueId bottom = x.rank() == 1 ? l.b().Reshape(l.bottom(0), {x[0], 1}) : l.bottom(0);
  const bool use_global = p.has_use_global_stats() ? p.use_global_stats() : l.phase() == TEST;
  const ValueId y = use_global ? Normalize(l, bottom, statistics, eps) : NormalizeBatch(l, bottom, statistics, eps);
  l.SetTop(0, l.b().Reshape(y, x));
}

}  // namespace

LayerDef BatchNormLayer() {
  return {.type = "BatchNorm",
          .doc =
              "(x - mean) / sqrt(variance + eps) per channel (axis 1); a Scale layer adds scale and shift. TRAIN uses "
              "the batch and updates the running sums, TEST uses them (use_global_stats overrides). Blobs: mean sum, "
              "variance sum, weight sum.",
          .build = Build};
}

}  // namespace moka
