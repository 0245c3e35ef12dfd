// Mean-field inference in a dense random field as layers of a net (CRF-RNN, Zheng et al., arXiv 1502.03240): each
// iteration filters softmax(q) with a spatial and a bilateral Gaussian, mixes the classes by two weight matrices and a
// compatibility matrix and subtracts the result from the unary scores. MultiStageMeanfieldAU3 is guided by features in
// place of an image.
#include <algorithm>
#include <cmath>
#include <sstream>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

constexpr uint32_t kMostIterations = 1000;
constexpr int64_t kMostGuides = 30;  // channels of lattice_filter's guide

// The layer's fields and what they are called: ARL's layer has another name for them.
struct Fields {
  const MultiStageMeanfieldParameter& p;
  std::string prefix;
};

double Deviation(const LayerBuilder& l, const std::string& field, float value) {
  l.Check(Finite(l, field, value) > 0, field, StrCat(field, " must be above 0, found ", value));
  return value;
}

// The numbers of a text, one a class.
std::vector<float> Diagonal(const LayerBuilder& l, const std::string& field, const std::string& text, float fallback,
                            int64_t classes) {
  if (text.empty()) return std::vector<float>(static_cast<size_t>(classes), fallback);
  std::istringstream in(text);
  std::vector<float> values;
  for (float value = 0; in >> value;) values.push_back(value);
  l.Check(in.eof() && static_cast<int64_t>(values.size()) >= classes, field,
          StrCat(field, " must hold a number for each of the ", classes, " classes, found ", values.size()));
  values.resize(static_cast<size_t>(classes));
  for (const float value : values) Finite(l, field, value);
  return values;
}

// Blob `index` [1,1,C,C], at first a diagonal matrix, as the weight [C,C,1,1] of a convolution.
ValueId AddMatrix(LayerBuilder& l, int index, const std::vector<float>& diagonal) {
  const auto classes = static_cast<int64_t>(diagonal.size());
  FillerParameter filler;
  for (size_t i = 0; i < diagonal.size(); ++i) {
    for (size_t j = 0; j < diagonal.size(); ++j) filler.add_values(i == j ? diagonal[i] : 0);
  }
  const ValueId matrix = l.AddBlob(index, {1, 1, classes, classes}, filler, ParameterRole::kWeight);
  return l.b().Reshape(matrix, {classes, classes, 1, 1});
}

ValueId Mixed(const GraphBuilder& b, ValueId x, ValueId matrix) {
  const Ints one{1, 1};
  const Ints none{0, 0};
  return b.Add1("convolution", {x, matrix},
                {{"stride", one}, {"pad_begin", none}, {"pad_end", none}, {"dilation", one}, {"groups", int64_t{1}}});
}

// A Gaussian filter whose weights add up to 1 at each pixel.
struct Filter {
  Attributes attributes;
  std::vector<ValueId> guide;  // none, or the image
  ValueId norm = kNoId;        // [N or 1,1,H,W]

  ValueId Raw(const GraphBuilder& b, ValueId x) const {
    std::vector<ValueId> inputs{x};
    inputs.insert(inputs.end(), guide.begin(), guide.end());
    return b.Add1("lattice_filter", inputs, attributes);
  }
};

Filter MakeFilter(const GraphBuilder& b, const Shape& unary, double position, std::vector<ValueId> guide,
                  double guide_deviation) {
  Filter filter{.attributes = {{"position_deviation", position}, {"guide_deviation", guide_deviation}},
                .guide = std::move(guide)};
  const ValueId ones = b.Full({filter.guide.empty() ? 1 : unary[0], 1, unary[2], unary[3]}, 1);
  filter.norm = b.Pointwise("1/(x0+1e-20)", {b.Add1("stop_gradient", {filter.Raw(b, ones)})});
  return filter;
}

// channels: of the image; 0: any.
void CheckBottoms(const LayerBuilder& l, int64_t channels) {
  const Shape unary = l.shape(0);
  l.Check(unary.rank() == 4 && unary.Count() >= 1, "bottom[0]",
          StrCat("the unary scores must be [N,C,H,W], found ", unary.ToString()));
  l.Check(l.shape(1) == unary, "bottom[1]",
          StrCat("the first scores must be those of the unary scores, ", unary.ToString(), ", found ",
                 l.shape(1).ToString()));
  if (channels == 0 && l.shape(2).rank() == 4) channels = std::clamp<int64_t>(l.shape(2)[1], 1, kMostGuides);
  l.Check(l.shape(2) == unary.With(1, channels), "bottom[2]",
          StrCat("the image must be ", unary.With(1, channels).ToString(), " for unary scores ", unary.ToString(),
                 ", found ", l.shape(2).ToString()));
  l.Check(unary[1] <= 4096, "bottom[0]", StrCat("at most 4096 classes, found ", unary[1]));
}

void BuildMultiStageMeanfield(LayerBuilder& l, const Fields& fields) {
  const GraphBuilder& b = l.b();
  const MultiStageMeanfieldParameter& p = fields.p;
  const std::string& prefix = fields.prefix;
  const Shape unary = l.shape(0);
  l.Check(p.num_iterations() >= 1 && p.num_iterations() <= kMostIterations, prefix + "num_iterations",
          StrCat("num_iterations must be from 1 to ", kMostIterations, ", found ", p.num_iterations()));
  const ValueId spatial_weights = AddMatrix(
      l, 0,
      Diagonal(l, prefix + "spatial_filter_weights_str", p.spatial_filter_weights_str(),
               static_cast<float>(Finite(l, prefix + "spatial_filter_weight", p.spatial_filter_weight())), unary[1]));
  const ValueId bilateral_weights =
      AddMatrix(l, 1,
                Diagonal(l, prefix + "bilateral_filter_weights_str", p.bilateral_filter_weights_str(),
                         static_cast<float>(Finite(l, prefix + "bilateral_filter_weight", p.bilateral_filter_weight())),
                         unary[1]));
  const ValueId compatibility = AddMatrix(l, 2, std::vector<float>(static_cast<size_t>(unary[1]), -1));
  const Filter spatial = MakeFilter(b, unary, Deviation(l, prefix + "theta_gamma", p.theta_gamma()), {}, 1);
  const Filter bilateral =
      MakeFilter(b, unary, Deviation(l, prefix + "theta_alpha", p.theta_alpha()),
                 {b.Add1("stop_gradient", {l.bottom(2)})}, Deviation(l, prefix + "theta_beta", p.theta_beta()));
  ValueId q = l.bottom(1);
  for (uint32_t i = 0; i < p.num_iterations(); ++i) {
    const ValueId probability = b.Add1("softmax", {q}, {{"axis", int64_t{1}}});
    const auto message = [&](const Filter& filter, ValueId weights) {
      return Mixed(b, b.Pointwise("x0*x1", {filter.Raw(b, probability), filter.norm}), weights);
    };
    const ValueId sum =
        b.Pointwise("x0+x1", {message(spatial, spatial_weights), message(bilateral, bilateral_weights)});
    q = b.Pointwise("x0-x1", {l.bottom(0), Mixed(b, sum, compatibility)});
  }
  l.SetTop(0, q);
}

void BuildImage(LayerBuilder& l) {
  CheckBottoms(l, 3);
  BuildMultiStageMeanfield(l, {l.param().multi_stage_meanfield_param(), "multi_stage_meanfield_param."});
}

void BuildFeatures(LayerBuilder& l) {
  CheckBottoms(l, 0);
  BuildMultiStageMeanfield(l, {l.param().multi_stage_meanfield_au3_param(), "multi_stage_meanfield_au3_param."});
}

}  // namespace

LayerDef MultiStageMeanfieldLayer() {
  return {.type = "MultiStageMeanfield",
          .min_bottoms = 3,
          .max_bottoms = 3,
          .build = BuildImage,
          .params = {"multi_stage_meanfield_param"}};
}

LayerDef MultiStageMeanfieldAu3Layer() {
  return {.type = "MultiStageMeanfieldAU3",
          .min_bottoms = 3,
          .max_bottoms = 3,
          .build = BuildFeatures,
          .params = {"multi_stage_meanfield_au3_param"}};
}

}  // namespace moka
