// Batch normalisation (Ioffe, Szegedy, arXiv 1502.03167), as Caffe keeps its statistics: blobs 0 and 1 are sums of
// means and variances that decay by moving_average_fraction, blob 2 is the sum of their weights.
//
// Intel's `filler` (or use_weight_bias, bias_term) adds blob 3, a scale, and with bias_term blob 4, a shift; relu: a
// ReLU follows. NVIDIA's scale_bias (or scale_filler, bias_filler) adds blobs 3 and 4, scale and shift, and keeps plain
// moving averages, r = f*r + (1-f)*batch with an unbiased variance, the first batch taken whole; its blob 2 is always
// 1, so here a 0 there says that no batch has been seen. Its eps is at least 1e-5; TEST always uses the averages.
// If scale_bias is not set, its files are Caffe's.
//
// BatchNormScale is the layer with scale and shift at blobs 3 and 4 under a name of its own (yuqj1991's Caffe).
#include <algorithm>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/ops/ranks/rank_parts.h"
#include "layers/shapes/shape_reader.h"

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
  const Term weight = Term::Of(s.weight);
  const Term factor = Select(weight == 0, 0, 1 / weight);
  const ValueId mean = Computed(b, Term::Of(s.mean) * factor);
  const Term variance = Term::Of(s.variance) * factor;
  const ValueId inverse = Computed(b, 1 / (adds_first ? Sqrt(variance + Decimal(eps)) : Sqrt(variance) + Decimal(eps)));
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
  const auto mean = [&](const Term& term, int64_t number) {
    const ValueId own = Computed(b, Term::Of(Summed(b, term, axes)) / count);
    return b.Add1("mean_over_ranks", {own}, {{"key", key + number}, {"ranks", ranks}});
  };
  const ValueId middle = mean(Term::Of(x), 0);
  const Term centered = Term::Of(x) - Term::Of(middle);
  const ValueId variance = mean(Square(centered), 1);
  const Shape channels{shape[1]};
  return {Computed(b, centered / Sqrt(Term::Of(variance) + Decimal(eps))), b.Reshape(middle, channels),
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
    const auto moved = [&](ValueId average, ValueId of_batch, double factor) {
      const Term batch = Term::Of(of_batch) * Decimal(factor);
      const Term sum = Term::Of(average) * Decimal(kept) + batch * Decimal(1 - kept);
      return Computed(b, Select(Term::Of(s.weight) == 0, batch, sum), {average, of_batch, s.weight});
    };
    l.Assign(first, moved(s.mean, mean, 1));
    l.Assign(first + 1, moved(s.variance, variance, unbiased));
    l.Assign(first + 2, b.Pointwise("x0*0+1", {s.weight}));
    return y;
  }
  const auto decayed = [&](ValueId sum) { return Term::Of(sum) * Decimal(kept); };
  l.Assign(0, Computed(b, decayed(s.mean) + Term::Of(mean)));
  l.Assign(1, Computed(b, decayed(s.variance) + Term::Of(variance) * Decimal(unbiased)));
  l.Assign(2, Computed(b, decayed(s.weight) + 1));
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
  return {.type = "BatchNorm",
          .build = BuildBatchNorm,
          .traits = {.top_shape = TopShape::kOfBottoms, .drawn_as = DrawnAs::kScaling, .counts_batches = true},
          .needs = NeedPictures,
          .params = {"batch_norm_param"}};
}

LayerDef BatchNormScaleLayer() { return {.type = kWithScale, .build = BuildWithScale, .params = {"batch_norm_param"}}; }

}  // namespace moka
