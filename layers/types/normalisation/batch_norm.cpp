// Batch normalisation (Ioffe, Szegedy, arXiv 1502.03167), as Caffe keeps its statistics: blobs 0 and 1 are sums of
// means and variances that decay by moving_average_fraction, blob 2 is the sum of their weights.
//
// Intel's `filler` (or use_weight_bias, bias_term) adds blob 3, a scale, and with bias_term blob 4, a shift; relu: a
// ReLU follows. NVIDIA's scale_bias (or scale_filler, bias_filler) adds blobs 3 and 4, scale and shift, and keeps plain
// moving averages, r = f*r + (1-f)*batch with an unbiased variance, the first batch taken whole; its blob 2 is always
// 1, so here a 0 there says that no batch has been seen. Its eps is at least 1e-5; TEST always uses the averages.
// Without scale_bias its files are Caffe's.
//
// BatchNormScale is the layer with scale and shift at blobs 3 and 4 under a name of its own (yuqj1991's Caffe).
#include <algorithm>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/ops/ranks/rank_parts.h"

namespace moka {
namespace {

constexpr double kNvidiaLeastEps = 1e-5;
constexpr const char* kWithScale = "BatchNormScale";

struct Statistics {
  ValueId mean;      // [C]
  ValueId variance;  // [C]
  ValueId weight;    // [1]
};

enum class Dialect : uint8_t {
  kCaffe,   // no affine part
  kIntel,   // scale and maybe shift, Caffe's sums; BatchNormScale's too
  kNvidia,  // scale and shift, moving averages
};

Dialect DialectOf(const LayerBuilder& l) {
  const BatchNormParameter& p = l.param().batch_norm_param();
  const bool is_intel = p.has_filler() || (p.has_use_weight_bias() && p.use_weight_bias()) ||
                        (p.has_bias_term() && !(p.has_use_weight_bias() && !p.use_weight_bias()));
  l.Check(!is_intel || !(p.scale_bias() || p.has_scale_filler()), "batch_norm_param",
          "scale_bias and scale_filler are NVIDIA's, filler, use_weight_bias and bias_term Intel's; give those of one");
  if (is_intel) return Dialect::kIntel;
  if (l.param().type() == kWithScale) return Dialect::kIntel;
  return p.scale_bias() || p.has_scale_filler() || p.has_bias_filler() ? Dialect::kNvidia : Dialect::kCaffe;
}

// Index of the first of the statistics' three blobs. NVIDIA's 0.15 had scale and shift before them, which shows where
// the first two are given rates: statistics have none.
int FirstStatistic(const LayerBuilder& l, Dialect dialect) {
  const BatchNormParameter& p = l.param().batch_norm_param();
  if (dialect != Dialect::kNvidia || p.scale_bias()) return 0;
  const auto learns = [&](int i) {
    return i < l.param().param_size() && l.param().param(i).has_lr_mult() && l.param().param(i).lr_mult() != 0;
  };
  return learns(0) || learns(1) ? 2 : 0;
}

// The statistics are no parameters: old files say lr_mult 0 for them, and nothing else can be meant.
void CheckParams(const LayerBuilder& l, int first) {
  for (int i = first; i < std::min(first + 3, l.param().param_size()); ++i) {
    l.Check(!l.param().param(i).has_lr_mult() || l.param().param(i).lr_mult() == 0, StrCat("param[", i, "].lr_mult"),
            "the statistics of BatchNorm are not trained: lr_mult must be 0 or absent");
  }
}

// y from the running sums; they are 0 before the first training step, as is then the mean.
ValueId Normalize(const LayerBuilder& l, ValueId x, const Statistics& s, double eps) {
  const bool adds_first = l.param().batch_norm_param().add_eps_before_sqrt();
  const GraphBuilder& b = l.b();
  const std::string factor = "select(eq(x1,0),0,1/x1)";
  const ValueId mean = b.Pointwise(StrCat("x0*", factor), {s.mean, s.weight});
  const std::string inverse_text = adds_first ? StrCat("1/sqrt(x0*", factor, "+", Number(eps), ")")
                                              : StrCat("1/(sqrt(x0*", factor, ")+", Number(eps), ")");
  const ValueId inverse = b.Pointwise(inverse_text, {s.variance, s.weight});
  const Shape channel = Spread(b.shape(mean), 1, b.shape(x).rank());
  return b.Pointwise("(x0-x1)*x2", {x, b.Reshape(mean, channel), b.Reshape(inverse, channel)});
}

struct Normalized {
  ValueId y;
  ValueId mean;      // [C]
  ValueId variance;  // [C], biased
  int64_t count;     // values of a channel that they are of
};

// By the statistics of the batches of several ranks together, in two passes as those of one.
Normalized NormalizeTogether(const LayerBuilder& l, ValueId x, double eps) {
  const GraphBuilder& b = l.b();
  const int64_t ranks = l.param().batch_norm_param().sync_ranks();
  const Shape shape = b.shape(x);
  Ints axes;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != 1) axes.push_back(i);
  }
  const int64_t count = shape.Count() / shape[1];
  const int64_t key = RankKey(l.param().name());
  const auto mean = [&](const std::string& expr, std::vector<ValueId> inputs, int64_t number) {
    const ValueId sum = b.Add1("reduce_sum", std::move(inputs), {{"expr", expr}, {"axes", axes}});
    const ValueId own = b.Pointwise(StrCat("x0/", count), {sum});
    return b.Add1("mean_over_ranks", {own}, {{"key", key + number}, {"ranks", ranks}});
  };
  const ValueId middle = mean("x0", {x}, 0);
  const ValueId variance = mean("(x0-x1)*(x0-x1)", {x, middle}, 1);
  const Shape channels{shape[1]};
  return {b.Pointwise(StrCat("(x0-x1)/sqrt(x2+", Number(eps), ")"), {x, middle, variance}), b.Reshape(middle, channels),
          b.Reshape(variance, channels), count * ranks};
}

Normalized NormalizeAlone(const LayerBuilder& l, ValueId x, double eps) {
  const std::vector<ValueId> y = l.b().Add("batch_norm", {x}, {{"eps", eps}});
  return {y[0], y[1], y[2], l.b().shape(x).Count() / l.b().shape(x)[1]};
}

// y from the batch; its unbiased variance joins the running sums or averages.
ValueId NormalizeBatch(LayerBuilder& l, ValueId x, const Statistics& s, double eps, Dialect dialect, int first) {
  const GraphBuilder& b = l.b();
  const double kept =
      Finite(l, "batch_norm_param.moving_average_fraction", l.param().batch_norm_param().moving_average_fraction());
  const bool is_together = l.param().batch_norm_param().sync_ranks() > 1;
  const Normalized batch_norm = is_together ? NormalizeTogether(l, x, eps) : NormalizeAlone(l, x, eps);
  const auto& [y, mean, variance, count] = batch_norm;
  const double unbiased = count > 1 ? static_cast<double>(count) / static_cast<double>(count - 1) : 1;
  if (dialect == Dialect::kNvidia) {
    const auto moved = [&](double factor) {
      const std::string batch = StrCat("x1*", Number(factor));
      return StrCat("select(eq(x2,0),", batch, ",x0*", Number(kept), "+", batch, "*", Number(1 - kept), ")");
    };
    l.Assign(first, b.Pointwise(moved(1), {s.mean, mean, s.weight}));
    l.Assign(first + 1, b.Pointwise(moved(unbiased), {s.variance, variance, s.weight}));
    l.Assign(first + 2, b.Pointwise("x0*0+1", {s.weight}));
    return y;
  }
  l.Assign(0, b.Pointwise(StrCat("x0*", Number(kept), "+x1"), {s.mean, mean}));
  l.Assign(1, b.Pointwise(StrCat("x0*", Number(kept), "+x1*", Number(unbiased)), {s.variance, variance}));
  l.Assign(2, b.Pointwise(StrCat("x0*", Number(kept), "+1"), {s.weight}));
  return y;
}

// The fork's blobs `first` and the next: scale and, unless Intel's bias_term is false, shift; each [C].
std::vector<ValueId> AddAffine(LayerBuilder& l, int64_t channels, Dialect dialect, int first) {
  const BatchNormParameter& p = l.param().batch_norm_param();
  const bool is_intel = dialect == Dialect::kIntel;
  FillerParameter one = is_intel ? p.filler() : p.scale_filler();
  if (!(is_intel ? p.has_filler() : p.has_scale_filler())) one.set_value(1);
  std::vector<ValueId> blobs{l.AddBlob(first, {channels}, one, ParameterRole::kNorm,
                                       is_intel ? "batch_norm_param.filler" : "batch_norm_param.scale_filler")};
  if (is_intel && !p.bias_term() && l.param().type() != kWithScale) return blobs;
  blobs.push_back(
      l.AddBlob(first + 1, {channels}, p.bias_filler(), ParameterRole::kNorm, "batch_norm_param.bias_filler"));
  return blobs;
}

// y * scale + shift.
ValueId Affine(const LayerBuilder& l, ValueId y, const std::vector<ValueId>& blobs) {
  const Shape shape = l.b().shape(y);
  const Shape spread = Spread({shape[1]}, 1, shape.rank());
  std::vector<ValueId> inputs{y};
  for (const ValueId blob : blobs) inputs.push_back(l.b().Reshape(blob, spread));
  return l.b().Pointwise(blobs.size() == 1 ? "x0*x1" : "x0*x1+x2", inputs);
}

double EpsOf(const LayerBuilder& l, Dialect dialect) {
  const double eps = Finite(l, "batch_norm_param.eps", l.param().batch_norm_param().eps());
  l.Check(eps >= 0, "batch_norm_param.eps", StrCat("batch_norm_param.eps must not be negative, found ", eps));
  return dialect == Dialect::kNvidia ? std::max(eps, kNvidiaLeastEps) : eps;
}

bool UsesGlobal(const LayerBuilder& l, Dialect dialect) {
  const BatchNormParameter& p = l.param().batch_norm_param();
  if (dialect == Dialect::kNvidia) return l.phase() == TEST || p.use_global_stats();
  return p.has_use_global_stats() ? p.use_global_stats() : l.phase() == TEST;
}

void BuildBatchNorm(LayerBuilder& l) {
  const BatchNormParameter& p = l.param().batch_norm_param();
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 1, "bottom[0]", "the bottom needs at least one axis");
  const Dialect dialect = DialectOf(l);
  const int first = FirstStatistic(l, dialect);
  CheckParams(l, first);
  const bool use_global = UsesGlobal(l, dialect);
  l.Check(use_global || p.stats_batch_size() == 0 || p.stats_batch_size() == x[0], "batch_norm_param.stats_batch_size",
          StrCat("statistics are those of the whole batch of ", x[0], ", stats_batch_size asks for ",
                 p.stats_batch_size()));
  l.Check(
      use_global || p.add_eps_before_sqrt(), "batch_norm_param.add_eps_before_sqrt",
      "add_eps_before_sqrt: false needs use_global_stats: true, or TEST: it is for weights of darknet, not to train");
  l.Check(p.sync_ranks() >= 0, "batch_norm_param.sync_ranks",
          StrCat("sync_ranks is a number of ranks, or 0 for all of a training's, found ", p.sync_ranks()));
  const double eps = EpsOf(l, dialect);
  const int64_t channels = x.rank() == 1 ? 1 : x[1];
  std::vector<ValueId> affine;
  if (first > 0) affine = AddAffine(l, channels, dialect, 0);
  Statistics statistics;
  const FillerParameter zero;
  statistics.mean = l.AddBlob(first, {channels}, zero, ParameterRole::kStatistic);
  statistics.variance = l.AddBlob(first + 1, {channels}, zero, ParameterRole::kStatistic);
  statistics.weight = l.AddBlob(first + 2, {1}, zero, ParameterRole::kStatistic);
  if (dialect != Dialect::kCaffe && first == 0) affine = AddAffine(l, channels, dialect, 3);
  const ValueId bottom = x.rank() == 1 ? l.b().Reshape(l.bottom(0), {x[0], 1}) : l.bottom(0);
  ValueId y =
      use_global ? Normalize(l, bottom, statistics, eps) : NormalizeBatch(l, bottom, statistics, eps, dialect, first);
  if (!affine.empty()) y = Affine(l, y, affine);
  l.SetTop(0, l.b().Reshape(Activated(l, y, "batch_norm_param", p.relu(), 0), x));
}

void BuildWithScale(LayerBuilder& l) {
  const BatchNormParameter& p = l.param().batch_norm_param();
  const bool has_own = p.has_filler() || p.has_use_weight_bias() || p.has_bias_term() || p.scale_bias() ||
                       p.has_scale_filler() || p.has_bias_filler() || p.relu();
  l.Check(!has_own, "batch_norm_param",
          "BatchNormScale has a scale and a shift; the fields of Intel's and NVIDIA's "
          "BatchNorm that ask for them are not its");
  BuildBatchNorm(l);
}

}  // namespace

LayerDef BatchNormLayer() {
  return {
      .type = "BatchNorm",
      .doc =
          "(x - mean) / sqrt(variance + eps) per channel (axis 1); a Scale layer adds scale and shift. TRAIN uses the "
          "batch and updates the running sums, TEST uses them (use_global_stats overrides; there add_eps_before_sqrt: "
          "false divides by sqrt(variance) + eps). Blobs: mean sum, variance sum, weight sum. NVIDIA's scale_bias, "
          "scale_filler or bias_filler add a scale and a shift (blobs 3, 4) and keep moving averages; Intel's filler, "
          "use_weight_bias or bias_term add a scale and, unless bias_term is false, a shift; relu: a ReLU follows.",
      .build = BuildBatchNorm,
      .page = {
          .params = {"batch_norm_param"},
          .formula =
              "m and v are the mean and the biased variance of channel c (axis 1; a bottom of one axis is one "
              "channel) over all other axes, M elements each: `y = (x - m[c]) / sqrt(v[c] + eps)`. Blobs 0, 1 [C] and "
              "2 [1] are then set to `b0 = f * b0 + m`, `b1 = f * b1 + v * M / (M - 1)`, `b2 = f * b2 + 1`, with f "
              "the moving_average_fraction (v itself if M is 1).\n\nWith the running statistics (TEST, or "
              "use_global_stats: true) `m = b0 / b2` and `v = b1 / b2`, both 0 if b2 is 0, and nothing is "
              "set.\n\nIntel's dialect (filler, use_weight_bias: true, or bias_term unless use_weight_bias is false): "
              "`y * b3[c]`, plus `b4[c]` unless bias_term is false. NVIDIA's (scale_bias, scale_filler or "
              "bias_filler): `y * b3[c] + b4[c]`; the statistics are averages, `b0 = f * b0 + (1 - f) * m`, b1 "
              "likewise, the first batch taken whole, and b2 becomes 1; eps is at least 1e-5; TEST always uses the "
              "averages; where param gives the first two blobs a rate these are scale and shift, as in its version "
              "0.15, and the statistics blobs 2 to 4. Scales start at 1 and shifts at 0 without a filler. relu: "
              "`max(y, 0)` follows.",
          .gradient = "From the batch's statistics, with `r = 1 / sqrt(v + eps)`, `h = (x - m) * r` and g the "
                      "gradient of h: `dx = r * (g - mean(g) - h * mean(g * h))`, means over the channel. From the "
                      "running ones: `dx = r * g`.\n\nScale and shift, where there are any: `db3[c] = sum of dy * h`, "
                      "`db4[c] = sum of dy`, and `g = dy * b3[c]`. Blobs 0 to 2 get none; their lr_mult must be 0 or "
                      "absent.",
          .source = "Batch normalization (Ioffe, Szegedy, arXiv 1502.03167); BVLC Caffe's batch_norm_layer, with the "
                    "affine parts and fields of Intel's and NVIDIA's Caffe. NVIDIA's blob 2 is always 1; here a 0 "
                    "there says that no batch has been seen.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
layer {
  name: "bn"
  type: "BatchNorm"
  bottom: "x"
  top: "bn"
  batch_norm_param { moving_average_fraction: 0.99 eps: 1e-5 }
})"}};
}

LayerDef BatchNormScaleLayer() {
  return {
      .type = kWithScale,
      .doc =
          "BatchNorm and the Scale with bias after it in one: blobs 0 to 2 are BatchNorm's sums, 3 the scale [C] (1 "
          "at first) and 4 the shift [C] (0 at first). Fields as BatchNorm's.",
      .build = BuildWithScale,
      .page = {
          .params = {"batch_norm_param"},
          .formula = "`y = h * b3[c] + b4[c]` per channel c (axis 1), h = `(x - m[c]) / sqrt(v[c] + eps)` and the "
                     "statistics as in BatchNorm.",
          .gradient =
              "As BatchNorm's with `g = dy * b3[c]`; `db3[c] = sum of dy * h`, `db4[c] = sum of dy`. Blobs 0 to 2 get "
              "none; their lr_mult must be 0 or absent.",
          .source = "yuqj1991's Caffe, batch_norm_scale_layer, for nets whose BatchNorm and Scale were merged. There "
                    "a layer that does not work in place scales its bottom instead of h, which cannot be meant, and "
                    "on the CPU the scale's gradient lacks h: here they are a Scale's.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
layer { name: "bn" type: "BatchNormScale" bottom: "x" top: "x" batch_norm_param { eps: 1e-5 } })"}};
}

}  // namespace moka
