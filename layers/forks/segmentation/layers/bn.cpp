// BN: batch normalisation with its scale and shift, in two dialects of one name.
//
// SegNet, ENet and DeconvNet have two blobs [1,C,1,1], scale and shift, and no running statistics: both phases
// normalise with the batch's own (eps 1e-9). bn_mode INFERENCE is y = scale*x + shift, the statistics folded in by a
// script after training. A second and third top are the batch's mean and variance.
//
// PSPNet and temporal segment networks have four blobs, slope, bias, running mean and running variance; TRAIN uses the
// batch and moves the running ones, r = momentum*r + (1-momentum)*batch (the variance biased), TEST uses them (the
// batch's own with moving_average: false); frozen uses them in TRAIN as well and trains neither slope nor bias.
//
// The dialect is told by a field that only one has, else the number of param entries, else four blobs (no public net
// leaves both out).
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

constexpr double kSegNetEps = 1e-9;

bool HasSegNetField(const BNParameter& p) {
  return p.has_scale_filler() || p.has_shift_filler() || p.has_bn_mode() || p.has_var_eps();
}
bool HasRunningField(const BNParameter& p) {
  return p.has_slope_filler() || p.has_bias_filler() || p.has_momentum() || p.has_eps() || p.has_frozen() ||
         p.has_moving_average() || p.icnet();
}

// Whether the layer is SegNet's.
bool HasTwoBlobs(const LayerBuilder& l) {
  const BNParameter& p = l.param().bn_param();
  l.Check(!p.has_decay(), "bn_param.decay", "decay, of running statistics that are not used, is not part of Moka");
  l.Check(!HasSegNetField(p) || !HasRunningField(p), "bn_param",
          "scale_filler, shift_filler and bn_mode are SegNet's, slope_filler, bias_filler, momentum, eps and frozen "
          "PSPNet's; give the fields of one of them");
  if (HasSegNetField(p) || HasRunningField(p)) return HasSegNetField(p);
  return l.param().param_size() == 1 || l.param().param_size() == 2;
}

FillerParameter FillerOf(bool has, const FillerParameter& given, double fallback) {
  FillerParameter filler = given;
  if (!has) filler.set_value(static_cast<float>(fallback));
  return filler;
}

// The blobs [1,C,1,1] of x.
Shape BlobShape(const Shape& x) { return {1, x[1], 1, 1}; }

// y = x*scale + shift with both [C].
ValueId Affine(const LayerBuilder& l, ValueId scale, ValueId shift) {
  const Shape spread = Spread({l.shape(0)[1]}, 1, l.shape(0).rank());
  return l.b().Pointwise("x0*x1+x2", {l.bottom(0), l.b().Reshape(scale, spread), l.b().Reshape(shift, spread)});
}

std::vector<ValueId> NormalizeBatch(const LayerBuilder& l, ValueId scale, ValueId shift, double eps) {
  const Shape channels{l.shape(0)[1]};
  return l.b().Add("batch_norm", {l.bottom(0), l.b().Reshape(scale, channels), l.b().Reshape(shift, channels)},
                   {{"eps", eps}});
}

void BuildTwoBlobs(LayerBuilder& l) {
  const BNParameter& p = l.param().bn_param();
  const Shape blob = BlobShape(l.shape(0));
  const ValueId scale = l.AddBlob(0, blob, FillerOf(p.has_scale_filler(), p.scale_filler(), 1), ParameterRole::kNorm,
                                  "bn_param.scale_filler");
  const ValueId shift = l.AddBlob(1, blob, FillerOf(p.has_shift_filler(), p.shift_filler(), 0), ParameterRole::kNorm,
                                  "bn_param.shift_filler");
  if (p.bn_mode() == BNParameter::INFERENCE) {
    l.Check(l.top_count() == 1, "top[1]", "bn_mode INFERENCE has no batch statistics; only LEARN has further tops");
    l.SetTop(0, Affine(l, scale, shift));
    return;
  }
  const double eps = p.has_var_eps() ? Finite(l, "bn_param.var_eps", p.var_eps()) : kSegNetEps;
  l.Check(eps > 0, "bn_param.var_eps", StrCat("bn_param.var_eps must be above 0, found ", eps));
  const std::vector<ValueId> y = NormalizeBatch(l, scale, shift, eps);
  l.SetTop(0, y[0]);
  for (int i = 1; i < l.top_count(); ++i) l.SetTop(i, l.b().Reshape(y[static_cast<size_t>(i)], blob));
}

// The normalisation with running statistics, as one affine map.
ValueId NormalizeRunning(const LayerBuilder& l, ValueId slope, ValueId bias, ValueId mean, ValueId variance,
                         double eps) {
  const Term scale = Term::Of(slope) / Sqrt(Term::Of(variance) + Decimal(eps));
  const ValueId shift = Computed(l.b(), Term::Of(bias) - Term::Of(mean) * scale, {slope, variance, bias, mean});
  return Affine(l, Computed(l.b(), scale), shift);
}

void BuildFourBlobs(LayerBuilder& l) {
  const BNParameter& p = l.param().bn_param();
  l.Check(l.top_count() == 1, "top[1]", "only SegNet's BN (scale_filler, shift_filler) has further tops");
  const double eps = Finite(l, "bn_param.eps", p.eps());
  l.Check(eps > 0, "bn_param.eps", StrCat("bn_param.eps must be above 0, found ", eps));
  const double kept = Finite(l, "bn_param.momentum", p.momentum());
  const Shape blob = BlobShape(l.shape(0));
  // A frozen layer's slope and bias are never written, as its statistics.
  const ParameterRole role = p.frozen() ? ParameterRole::kStatistic : ParameterRole::kNorm;
  const ValueId slope =
      l.AddBlob(0, blob, FillerOf(p.has_slope_filler(), p.slope_filler(), 1), role, "bn_param.slope_filler");
  const ValueId bias =
      l.AddBlob(1, blob, FillerOf(p.has_bias_filler(), p.bias_filler(), 0), role, "bn_param.bias_filler");
  const ValueId mean = l.AddBlob(2, blob, FillerParameter(), ParameterRole::kStatistic);
  const ValueId variance = l.AddBlob(3, blob, FillerOf(!p.frozen(), FillerParameter(), 1), ParameterRole::kStatistic);
  if (p.frozen() || (l.phase() == TEST && p.moving_average())) {
    l.SetTop(0, NormalizeRunning(l, slope, bias, mean, variance, eps));
    return;
  }
  const std::vector<ValueId> y = NormalizeBatch(l, slope, bias, eps);
  if (l.phase() == TEST) return l.SetTop(0, y[0]);
  const auto moved = [&](ValueId average, ValueId batch) {
    const ValueId now = l.b().Reshape(batch, blob);
    return Computed(l.b(), Term::Of(average) * Decimal(kept) + Term::Of(now) * Decimal(1 - kept));
  };
  l.Assign(2, moved(mean, y[1]));
  l.Assign(3, moved(variance, y[2]));
  l.SetTop(0, y[0]);
}

void BuildBn(LayerBuilder& l) {
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2, "bottom[0]", StrCat("the bottom must be [N,C,..], found ", x.ToString()));
  if (HasTwoBlobs(l)) {
    BuildTwoBlobs(l);
  } else {
    BuildFourBlobs(l);
  }
}

}  // namespace

LayerDef BnLayer() {
  return {.type = "BN",
          .max_tops = 3,
          .build = BuildBn,
          .traits = {.top_shape = TopShape::kOfBottoms},
          .params = {"bn_param"}};
}

}  // namespace moka
