// One overload a change checks its message's fields and their ranges at their places; nothing is drawn here.
#include "data/augment/augment_fields.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "data/data_layers.h"
#include "proto/text/places.h"

namespace moka {
namespace {

// The fields of one message, for its checks.
class AugmentFields {
 public:
  AugmentFields(const LayerParameter& layer, std::string path) : layer_(layer), path_(std::move(path)) {}

  AugmentFields In(std::string_view name) const { return {layer_, StrCat(path_, ".", name)}; }
  [[noreturn]] void Fail(std::string_view name, const std::string& text, const std::string& hint = "") const {
    const std::string field = name.empty() ? path_ : StrCat(path_, ".", name);
    throw ErrorAt(layer_, field, StrCat("layer \"", layer_.name(), "\": ", field, " ", text), hint);
  }
  void CheckRange(std::string_view name, double value, double low, double high) const {
    if (value >= low && value <= high) return;
    Fail(name, StrCat("is ", value, ", expected ", low, "..", high));
  }
  // 0 < low <= high <= most.
  void CheckPair(std::string_view low_name, double low, std::string_view high_name, double high, double most) const {
    if (low > 0 && low <= high && high <= most) return;
    Fail(low_name, StrCat("is ", low, " and ", high_name, " ", high, ", expected 0 < ", low_name, " <= ", high_name,
                          " <= ", most));
  }

 private:
  const LayerParameter& layer_;
  std::string path_;
};

constexpr double kMostScale = 64;
constexpr double kMostPixels = 1 << 14;

void CheckChange(const AffineChange& p, const AugmentFields& fields) {
  fields.CheckRange("degrees", double{p.degrees()}, 0, 180);
  fields.CheckRange("translate", double{p.translate()}, 0, 1);
  fields.CheckPair("scale_min", double{p.scale_min()}, "scale_max", double{p.scale_max()}, kMostScale);
  fields.CheckRange("scale_min", double{p.scale_min()}, 1 / kMostScale, kMostScale);
  fields.CheckRange("shear", double{p.shear()}, 0, 80);
  fields.CheckRange("fill", p.fill(), 0, 255);
}

void CheckChange(const ColorChange& p, const AugmentFields& fields) {
  fields.CheckRange("brightness", double{p.brightness()}, 0, kMostScale);
  fields.CheckRange("contrast", double{p.contrast()}, 0, kMostScale);
  fields.CheckRange("saturation", double{p.saturation()}, 0, kMostScale);
  fields.CheckRange("hue", double{p.hue()}, 0, 0.5);
}

void CheckChange(const LightingChange& p, const AugmentFields& fields) {
  fields.CheckRange("std", double{p.std()}, 0, kMostScale);
  if (p.value_size() != 0 && p.value_size() != 3)
    fields.Fail("value", StrCat("has ", p.value_size(), " numbers, not 3"));
  if (p.vector_size() != 0 && p.vector_size() != 9) {
    fields.Fail("vector", StrCat("has ", p.vector_size(), " numbers, not 9"));
  }
  if (p.value().empty() != p.vector().empty()) fields.Fail("", "needs value and vector together");
  for (const float value : p.value()) fields.CheckRange("value", double{value}, 0, kMostScale);
  for (const float value : p.vector()) fields.CheckRange("vector", double{value}, -1, 1);
}

void CheckChange(const ElasticChange& p, const AugmentFields& fields) {
  fields.CheckRange("alpha", double{p.alpha()}, 0, kMostPixels);
  fields.CheckRange("sigma", double{p.sigma()}, 0.1, 256);
}

void CheckChange(const AugmentPolicy& p, const AugmentFields& fields) {
  fields.CheckRange("count", p.count(), 1, 64);
  fields.CheckRange("magnitude", p.magnitude(), 0, 30);
  fields.CheckRange("fill", p.fill(), 0, 255);
  if (p.kind() == AugmentPolicy::RAND_AUGMENT) return;
  if (p.has_count()) fields.Fail("count", "is of RAND_AUGMENT only");
  if (p.has_magnitude()) fields.Fail("magnitude", "is of RAND_AUGMENT only");
}

void CheckChange(const Erasing& p, const AugmentFields& fields) {
  fields.CheckPair("area_min", double{p.area_min()}, "area_max", double{p.area_max()}, 1);
  fields.CheckPair("ratio_min", double{p.ratio_min()}, "ratio_max", double{p.ratio_max()}, kMostPixels);
  fields.CheckRange("size", p.size(), 0, kMostPixels);
  if (p.size() > 0 && (p.has_area_min() || p.has_area_max() || p.has_ratio_min() || p.has_ratio_max())) {
    fields.Fail("size", "does not go with an area or a ratio: it is a square's side");
  }
}

void CheckChange(const Augmentation& p, const AugmentFields& fields) {
  fields.CheckRange("probability", double{p.probability()}, 0, 1);
  const int changes = static_cast<int>(p.has_affine()) + static_cast<int>(p.has_color()) +
                      static_cast<int>(p.has_lighting()) + static_cast<int>(p.has_elastic()) +
                      static_cast<int>(p.has_policy()) + static_cast<int>(p.has_erase());
  if (changes != 1) {
    fields.Fail("", StrCat("holds ", changes, " changes, expected one"),
                "set one of affine, color, lighting, elastic, policy and erase; write augment again for the next");
  }
  CheckChange(p.affine(), fields.In("affine"));
  CheckChange(p.color(), fields.In("color"));
  CheckChange(p.lighting(), fields.In("lighting"));
  CheckChange(p.elastic(), fields.In("elastic"));
  CheckChange(p.policy(), fields.In("policy"));
  CheckChange(p.erase(), fields.In("erase"));
}

// Label pictures at another size than the image's are made apart from it.
void CheckShapes(const LayerParameter& layer) {
  const bool has_small_labels = (DataRowOf(layer).database == RecordKind::kAnnotated && layer.top_size() > 2) ||
                                layer.dense_image_data_param().label_divide_factor() > 1;
  if (!has_small_labels) return;
  for (int i = 0; i < layer.transform_param().augment_size(); ++i) {
    const Augmentation& p = layer.transform_param().augment(i);
    if (!p.has_affine() && !p.has_elastic() && !p.has_policy()) continue;
    AugmentFields(layer, StrCat("transform_param.augment[", i, "]"))
        .Fail(p.has_affine()    ? "affine"
              : p.has_elastic() ? "elastic"
                                : "policy",
              "moves pixels, and label pictures smaller than the image do not follow", "color, lighting and erase go");
  }
}

void CheckMixing(const LayerParameter& layer) {
  const Mixing& p = layer.transform_param().mixing();
  const AugmentFields fields(layer, "transform_param.mixing");
  fields.CheckRange("mixup_alpha", double{p.mixup_alpha()}, 0, 1e6);
  fields.CheckRange("cutmix_alpha", double{p.cutmix_alpha()}, 0, 1e6);
  if (p.mixup_alpha() == 0 && p.cutmix_alpha() == 0) fields.Fail("", "needs mixup_alpha or cutmix_alpha");
  fields.CheckRange("classes", p.classes(), 1, 1 << 20);
  if (layer.top_size() == 2) return;
  fields.Fail("", StrCat("needs the tops data and label, the layer has ", layer.top_size()));
}

// Refuses a field that the layer's type does not read, as its row says.
void CheckType(const LayerParameter& layer, bool DataLayerRow::*reads, std::string_view field) {
  if (DataRowOf(layer).*reads) return;
  const std::string path = StrCat("transform_param.", field);
  std::vector<std::string> types;
  for (const DataLayerRow& row : AllDataLayers()) {
    if (row.*reads) types.push_back(row.type);
  }
  throw ErrorAt(layer, path, StrCat("layer \"", layer.name(), "\": ", layer.type(), " does not read ", path),
                StrCat("layers that do are ", Join(types, ", ")));
}

}  // namespace

void CheckAugment(const LayerParameter& layer) {
  const TransformationParameter& p = layer.transform_param();
  if (p.augment_size() > 0) {
    CheckType(layer, &DataLayerRow::augments, "augment");
    if (p.has_mean_file()) {
      throw ErrorAt(layer, "transform_param.mean_file",
                    StrCat("layer \"", layer.name(), "\": a mean image does not fit pictures that augment changes"),
                    "use mean_value");
    }
  }
  for (int i = 0; i < p.augment_size(); ++i) {
    CheckChange(p.augment(i), AugmentFields(layer, StrCat("transform_param.augment[", i, "]")));
    if (i == 0 || p.augment(i).has_erase() || !p.augment(i - 1).has_erase()) continue;
    AugmentFields(layer, StrCat("transform_param.augment[", i, "]"))
        .Fail("", "comes after an erase, which is of the finished sample", "move erase to the end");
  }
  CheckShapes(layer);
  if (!p.has_mixing()) return;
  CheckType(layer, &DataLayerRow::mixes, "mixing");
  CheckMixing(layer);
}

}  // namespace moka
