// Tops filled by a filler: constants once, random ones anew each step.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "proto/nets/filler.h"

namespace moka {
namespace {

google::protobuf::RepeatedPtrField<BlobShape> LegacyShapes(const LayerBuilder& l) {
  const DummyDataParameter& p = l.param().dummy_data_param();
  const auto check = [&](std::string_view field, int size) {
    l.Check(size == 1 || size == l.top_count(), field,
            StrCat(field, " is given ", size, " times for ", l.top_count(), " tops; give one, or one a top"));
  };
  check("dummy_data_param.num", p.num_size());
  check("dummy_data_param.channels", p.channels_size());
  check("dummy_data_param.height", p.height_size());
  check("dummy_data_param.width", p.width_size());
  const auto at = [](const google::protobuf::RepeatedField<uint32_t>& values, int i) {
    return values.Get(values.size() == 1 ? 0 : i);
  };
  google::protobuf::RepeatedPtrField<BlobShape> shapes;
  for (int i = 0; i < l.top_count(); ++i) {
    BlobShape& shape = *shapes.Add();
    for (const auto* values : {&p.num(), &p.channels(), &p.height(), &p.width()}) shape.add_dim(at(*values, i));
  }
  return shapes;
}

void CheckTopFiller(const LayerBuilder& l, int i, const Shape& shape) {
  try {
    CheckFiller(l.param().dummy_data_param().data_filler(i), shape);
  } catch (const Error& error) {
    l.Fail(StrCat("dummy_data_param.data_filler[", i, "]"), error.text(), error.hint());
  }
}

void BuildDummyData(LayerBuilder& l) {
  const DummyDataParameter& p = l.param().dummy_data_param();
  const bool is_legacy = p.num_size() + p.channels_size() + p.height_size() + p.width_size() > 0;
  l.Check(!is_legacy || p.shape_size() == 0, "dummy_data_param.shape",
          "both shape and num, channels, height, width are given; give shape");
  l.Check(is_legacy || p.shape_size() > 0, "dummy_data_param", "dummy_data_param.shape must be given");
  const int fillers = p.data_filler_size();
  l.Check(fillers <= 1 || fillers == l.top_count(), "dummy_data_param.data_filler",
          StrCat("dummy_data_param.data_filler is given ", fillers, " times for ", l.top_count(),
                 " tops; give one, one a top, or none"));
  const std::vector<TensorType> types = TopTypes(l, "dummy_data_param.shape", is_legacy ? LegacyShapes(l) : p.shape());
  for (int i = 0; i < fillers; ++i) CheckTopFiller(l, i, types[static_cast<size_t>(i)].shape);
  l.AddData(types);
}

}  // namespace

LayerDef DummyDataLayer() {
  return {.type = "DummyData",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = -1,
          .build = BuildDummyData,
          .traits = {.data = DataKind::kFillers, .drawn_as = DrawnAs::kData},
          .params = {"dummy_data_param"}};
}

}  // namespace moka
