// Layers whose weights have masks: dynamic network surgery (Guo et al., arXiv 1608.04493) and incremental network
// quantisation (Zhou et al., arXiv 1702.03044), each for Convolution and InnerProduct. The masks are blobs after the
// weights and the bias.
//
// Surgery: the layer computes with w * mask, and w has the gradient of the masked weight, so that a weight that is cut
// off can grow back. In TRAIN the masks follow the size of the weights: off below alpha_low * t, on again above
// alpha_high * t, with t = max(mu + c_rate * sigma, 0) of the absolute masked values in the first run; this with the
// probability (1 + gamma * run)^-power, and no more from run iter_stop on. The original's CPU code computes sigma with
// a slip; this is its GPU code.
//
// Quantisation: the weights are used as they are. What its fork does in the first training iteration, fixing a part of
// the weights at powers of two, is not part of Moka; training such a net is refused (optim/step/train_net.cpp).
#include <numeric>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/net/random_stream.h"

namespace moka {
namespace {

struct Blob {
  int index = 0;
  ValueId value = kNoId;
  ValueId mask = kNoId;
};

// Number of elements that count, and sums of their absolute values and squares; scalars.
struct Moments {
  ValueId count;
  ValueId sum;
  ValueId squares;
};

ValueId Total(const LayerBuilder& l, const std::string& expr, const std::vector<Blob>& blobs) {
  std::vector<Term> sums;
  for (const Blob& blob : blobs) {
    Ints axes;
    for (int i = 0; i < l.b().shape(blob.value).rank(); ++i) axes.push_back(i);
    const ValueId sum = l.b().Add1("reduce_sum", {blob.value, blob.mask}, {{"expr", expr}, {"axes", axes}});
    sums.push_back(Term::Of(l.b().Reshape(sum, Shape{})));
  }
  const Term total = std::accumulate(sums.begin() + 1, sums.end(), sums.front());
  return l.b().Add1("stop_gradient", {Computed(l.b(), total)});
}

// The threshold t of the first run, kept for all later ones.
ValueId Threshold(LayerBuilder& l, const std::string& prefix, const DNSParameter& p, const std::vector<Blob>& blobs,
                  ValueId runs) {
  const ValueId kept = l.AddKept("threshold", {});
  const Moments m{Total(l, "gt(abs(x0*x1),0)", blobs), Total(l, "abs(x0*x1)", blobs), Total(l, "x0*x0*x1", blobs)};
  const Term rate = Decimal(Finite(l, prefix + "c_rate", p.c_rate()));
  const Term count = Max(Term::Of(m.count), 1);
  const Term mean = Term::Of(m.sum) / count;
  const Term deviation = Sqrt(Max(Term::Of(m.squares) / count - mean * mean, 0));
  const ValueId first = l.b().Pointwise(Max(mean + rate * deviation, 0), {m.count, m.sum, m.squares});
  const ValueId now = l.b().Pointwise("select(eq(x0,0),x1,x2)", {runs, first, kept});
  l.AssignKept(kept, now);
  return now;
}

// The masks as the run uses them; TRAIN moves them.
void MoveMasks(LayerBuilder& l, const std::string& prefix, const DNSParameter& p, std::vector<Blob>& blobs) {
  const GraphBuilder& b = l.b();
  const ValueId runs = l.AddKept("runs", {});
  l.AssignKept(runs, b.Pointwise("x0+1", {runs}));
  const ValueId threshold = Threshold(l, prefix, p, blobs, runs);
  const double gamma = Finite(l, prefix + "gamma", p.gamma());
  l.Check(gamma >= 0, prefix + "gamma", StrCat(prefix, "gamma must not be negative, found ", gamma));
  const Term power = Decimal(-Finite(l, prefix + "power", p.power()));
  const Term stop = Decimal(Finite(l, prefix + "iter_stop", p.iter_stop()));
  const Term run = Term::Of(runs);
  const ValueId moves = Computed(b, (Pow(1 + Decimal(gamma) * run, power) > Uniform(l)) * (run < stop));
  const Term low = Decimal(Finite(l, prefix + "alpha_low", p.alpha_low()));
  const Term high = Decimal(Finite(l, prefix + "alpha_high", p.alpha_high()));
  for (Blob& blob : blobs) {
    const Term mask = Term::Of(blob.mask);
    const Term is_kept = Abs(Term::Of(blob.value)) > Select(mask > 0.5, low, high) * Term::Of(threshold);
    const Term moved = Select(Term::Of(moves), is_kept, mask);
    blob.mask = b.Add1("stop_gradient", {b.Pointwise(moved, {blob.mask, blob.value, threshold, moves})});
    l.Assign(blob.index, blob.mask);
  }
}

// y of x with the parameters, as Convolution or InnerProduct has it.
using Apply = ValueId (*)(LayerBuilder&, const std::vector<ValueId>& inputs);

ValueId Convolve(LayerBuilder& l, const std::vector<ValueId>& inputs) {
  return l.b().Add1("convolution", inputs, ReadConvolution(l).attributes());
}

ValueId Multiply(LayerBuilder& l, const std::vector<ValueId>& inputs) {
  const InnerProductParameter& p = l.param().inner_product_param();
  const Shape x = l.shape(0);
  const int axis = AxisOf(l, "inner_product_param.axis", p.axis(), x);
  std::vector<ValueId> rows = inputs;
  rows[0] = l.b().Reshape(inputs[0], {x.Count(0, axis), x.Count(axis, x.rank())});
  const ValueId y = l.b().Add1("matmul", rows, {{"transpose_a", false}, {"transpose_b", !p.transpose()}});
  return l.b().Reshape(y, Joined(Part(x, 0, axis), {int64_t{p.num_output()}}));
}

struct Kind {
  std::string param;  // "convolution_param"
  Shape weight;
  int64_t outputs = 0;
  bool has_bias = true;
  FillerParameter weight_filler;
  FillerParameter bias_filler;
};

Kind ConvolutionKind(const LayerBuilder& l) {
  const ConvolutionParameter& p = l.param().convolution_param();
  const ConvolutionFields fields = ReadConvolution(l);
  return {"convolution_param", Joined({fields.outputs, l.shape(0)[1] / fields.groups}, Shape(fields.kernel)),
          fields.outputs,      p.bias_term(),
          p.weight_filler(),   p.bias_filler()};
}

Kind InnerProductKind(const LayerBuilder& l) {
  const InnerProductParameter& p = l.param().inner_product_param();
  const Shape x = l.shape(0);
  l.Check(p.num_output() >= 1, "inner_product_param.num_output", "num_output must be given and at least 1");
  const int64_t length = x.Count(AxisOf(l, "inner_product_param.axis", p.axis(), x), x.rank());
  const int64_t outputs = p.num_output();
  return {"inner_product_param",
          p.transpose() ? Shape{length, outputs} : Shape{outputs, length},
          outputs,
          p.bias_term(),
          p.weight_filler(),
          p.bias_filler()};
}

template <class Masks>
std::vector<Blob> AddBlobs(LayerBuilder& l, const Kind& kind, const std::string& prefix, const Masks& masks) {
  std::vector<Blob> blobs{
      {0, l.AddBlob(0, kind.weight, kind.weight_filler, ParameterRole::kWeight, kind.param + ".weight_filler")}};
  if (kind.has_bias) {
    blobs.push_back(
        {1, l.AddBlob(1, {kind.outputs}, kind.bias_filler, ParameterRole::kBias, kind.param + ".bias_filler")});
  }
  const auto count = static_cast<int>(blobs.size());
  for (int i = 0; i < count; ++i) {
    Blob& blob = blobs[static_cast<size_t>(i)];
    blob.index = count + i;
    blob.mask =
        l.AddBlob(count + i, l.b().shape(blob.value), i == 0 ? masks.weight_mask_filler() : masks.bias_mask_filler(),
                  ParameterRole::kStatistic, prefix + (i == 0 ? "weight_mask_filler" : "bias_mask_filler"));
  }
  return blobs;
}

void BuildSurgery(LayerBuilder& l, const Kind& kind, const std::string& prefix, const DNSParameter& p, Apply apply) {
  std::vector<Blob> blobs = AddBlobs(l, kind, prefix, p);
  if (l.phase() == TRAIN) MoveMasks(l, prefix, p, blobs);
  std::vector<ValueId> inputs{l.bottom(0)};
  for (const Blob& blob : blobs) {
    const ValueId cut = l.b().Add1("stop_gradient", {l.b().Pointwise("x0*(x1-1)", {blob.value, blob.mask})});
    inputs.push_back(l.b().Pointwise("x0+x1", {blob.value, cut}));
  }
  l.SetTop(0, apply(l, inputs));
}

void BuildQuantized(LayerBuilder& l, const Kind& kind, const std::string& prefix, const INQParameter& p, Apply apply) {
  std::vector<ValueId> inputs{l.bottom(0)};
  for (const Blob& blob : AddBlobs(l, kind, prefix, p)) inputs.push_back(blob.value);
  l.SetTop(0, apply(l, inputs));
}

void BuildDnsConvolution(LayerBuilder& l) {
  BuildSurgery(l, ConvolutionKind(l), "dns_convolution_param.", l.param().dns_convolution_param(), Convolve);
}
void BuildDnsInnerProduct(LayerBuilder& l) {
  BuildSurgery(l, InnerProductKind(l), "dns_inner_product_param.", l.param().dns_inner_product_param(), Multiply);
}
void BuildInqConvolution(LayerBuilder& l) {
  BuildQuantized(l, ConvolutionKind(l), "inq_convolution_param.", l.param().inq_convolution_param(), Convolve);
}
void BuildInqInnerProduct(LayerBuilder& l) {
  BuildQuantized(l, InnerProductKind(l), "inq_inner_product_param.", l.param().inq_inner_product_param(), Multiply);
}

}  // namespace

LayerDef DnsConvolutionLayer() {
  return {
      .type = "DNSConvolution", .build = BuildDnsConvolution, .params = {"convolution_param", "dns_convolution_param"}};
}

LayerDef DnsInnerProductLayer() {
  return {.type = "DNSInnerProduct",
          .build = BuildDnsInnerProduct,
          .params = {"inner_product_param", "dns_inner_product_param"}};
}

LayerDef InqConvolutionLayer() {
  return {.type = "INQConvolution",
          .build = BuildInqConvolution,
          .traits = {.untrainable = "fixes weights at powers of two"},
          .params = {"convolution_param", "inq_convolution_param"}};
}

LayerDef InqInnerProductLayer() {
  return {.type = "INQInnerProduct",
          .build = BuildInqInnerProduct,
          .traits = {.untrainable = "fixes weights at powers of two"},
          .params = {"inner_product_param", "inq_inner_product_param"}};
}

}  // namespace moka
