// Every field of every message that a layer says it reads: set to other values in the layer's own example it changes
// what is built, is refused, or is among those that are said to be ignored.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/quiet_scope.h"
#include "core/text.h"
#include "graph/graph.h"
#include "layers/net/field_variants.h"
#include "layers/net/fork_types.h"
#include "layers/net/given_fields.h"
#include "layers/net/manual_page.h"
#include "layers/net/moot_fields.h"
#include "layers/net/net.h"
#include "layers/net/unread_fields.h"
#include "proto/nets/net_file.h"
#include "tools/nets/net_source.h"

namespace moka {
namespace {

using Field = google::protobuf::FieldDescriptor;
using google::protobuf::Message;
namespace fs = std::filesystem;

// Returns what a net becomes, as text: its graph, its blobs and their fillers, or why there is none.
std::string BuiltText(const NetParameter& param) {
  const QuietScope quiet;
  try {
    NetOptions options;
    options.state.set_phase(param.state().has_phase() ? param.state().phase() : TRAIN);
    options.data_types = GuessDataTypes();
    const BuiltNet net = BuildNet(param, options);
    std::string text = ToText(net.graph);
    for (const NetBlob& blob : net.blobs) {
      text += StrCat(blob.name, " ", blob.shape.ToString(), " ", blob.filler.ShortDebugString(), " ", blob.lr_mult, " ",
                     static_cast<int>(blob.role), "\n");
    }
    for (const BuiltNet::Output& output : net.outputs) text += StrCat(output.name, " ", output.loss_weight, "\n");
    return text;
  } catch (const Error& error) {
    return StrCat("error: ", error.text());
  }
}

// Names that are called somewhere in the rooms that read nets: "num_output(".
const std::set<std::string>& CalledNames() {
  static const std::set<std::string> names = [] {
    std::set<std::string> found;
    for (const char* room : {"layers", "data", "proto", "optim", "tools"}) {
      for (const auto& entry : fs::recursive_directory_iterator(fs::path(MOKA_SOURCE_DIR) / room)) {
        const std::string extension = entry.path().extension().string();
        if (extension != ".cpp" && extension != ".h") continue;
        const std::string text = ReadFile(entry.path());
        for (size_t at = text.find('('); at != std::string::npos; at = text.find('(', at + 1)) {
          size_t begin = at;
          while (begin > 0 &&
                 (std::isalnum(static_cast<unsigned char>(text[begin - 1])) != 0 || text[begin - 1] == '_'))
            --begin;
          std::string name = text.substr(begin, at - begin);
          found.insert(name);
          for (const std::string_view front : {"has_", "mutable_"}) {
            if (name.starts_with(front)) name.erase(0, front.size());
          }
          if (name.ends_with("_size")) found.insert(name.substr(0, name.size() - 5));
          found.insert(name);
        }
      }
    }
    return found;
  }();
  return names;
}

bool IsListed(const std::string& type, const std::string& param, const Field& field) {
  const auto has = [&](const std::vector<UnreadFields>& rows, const std::string& owner, const std::string& of) {
    return std::ranges::any_of(rows, [&](const UnreadFields& row) {
      return row.owner == owner && row.param == of && std::ranges::find(row.fields, field.name()) != row.fields.end();
    });
  };
  return has(FieldsNothingReads(), field.containing_type()->name(), "") || has(FieldsLayersDoNotRead(), type, param);
}

struct Example {
  NetParameter net;
  int layer = -1;  // the first of the type
  std::string plain;
};

Example ExampleOf(const LayerDef& def) {
  Example example{NetFromText(ManualPageOf(def.type).example, "example"), -1, {}};
  for (int i = 0; i < example.net.layer_size() && example.layer < 0; ++i) {
    if (example.net.layer(i).type() == def.type) example.layer = i;
  }
  example.plain = BuiltText(example.net);
  return example;
}

// Whether a value of a field makes a difference in the example.
bool MakesADifference(const Example& example, const Field& param, const Field& field) {
  const LayerParameter& layer = example.net.layer(example.layer);
  const auto& reflection = *layer.GetReflection();
  const bool is_list = param.is_repeated();
  if (is_list && reflection.FieldSize(layer, &param) == 0) return true;
  const Message& message =
      is_list ? reflection.GetRepeatedMessage(layer, &param, 0) : reflection.GetMessage(layer, &param);
  // A message may mean something by being there.
  NetParameter present = example.net;
  if (!is_list) (void)reflection.MutableMessage(present.mutable_layer(example.layer), &param);
  const std::string plain = BuiltText(present);
  for (const std::unique_ptr<Message>& variant : FieldVariants(message, field)) {
    NetParameter changed = example.net;
    LayerParameter& other = *changed.mutable_layer(example.layer);
    (is_list ? reflection.MutableRepeatedMessage(&other, &param, 0) : reflection.MutableMessage(&other, &param))
        ->CopyFrom(*variant);
    if (BuiltText(changed) != plain) return true;
  }
  return false;
}

TEST(LayerFields, EveryFieldChangesWhatIsBuiltOrIsReadElsewhereOrIsSaidToBeIgnored) {
  int read = 0;
  for (const LayerDef& def : AllLayers()) {
    const Example example = ExampleOf(def);
    ASSERT_GE(example.layer, 0) << def.type;
    const bool reads_files = example.net.layer(example.layer).bottom_size() == 0;
    for (const std::string& name : def.params) {
      const Field& param = *LayerParameter::descriptor()->FindFieldByName(name);
      for (int i = 0; i < param.message_type()->field_count(); ++i) {
        const Field& field = *param.message_type()->field(i);
        if (field.name() == "origin") continue;
        const bool is_listed = IsListed(def.type, name, field);
        const bool differs = MakesADifference(example, param, field);
        read += differs ? 1 : 0;
        if (is_listed) {
          if (reads_files) continue;  // its shapes are guessed here from whatever is given
          EXPECT_FALSE(differs) << def.type << " reads " << name << "." << field.name()
                                << ", which is said to be ignored";
        } else if (!differs) {
          EXPECT_TRUE(CalledNames().contains(field.lowercase_name()))
              << def.type << ": " << name << "." << field.name() << " is neither read nor said to be ignored";
        }
      }
    }
  }
  EXPECT_GT(read, 3 * std::ssize(AllLayers()));
}

// The shapes of the bottoms of the example's layer; none where it does not build.
std::vector<Shape> BottomsOf(const Example& example) {
  NetOptions options;
  options.state.set_phase(example.net.state().has_phase() ? example.net.state().phase() : TRAIN);
  options.data_types = GuessDataTypes();
  NetParameter before = example.net;  // up to the layer, so that what works in place has not changed them
  before.mutable_layer()->DeleteSubrange(example.layer, before.layer_size() - example.layer);
  const QuietScope quiet;
  std::vector<Shape> shapes;
  const NetAttempt attempt = AttemptNet(before, options);
  for (const std::string& bottom : example.net.layer(example.layer).bottom()) {
    const auto found = attempt.blobs.find(bottom);
    if (found == attempt.blobs.end()) return {};
    shapes.push_back(found->second);
  }
  return shapes;
}

// Returns whether a list holds what the lists of windows are without being given.
bool IsListAtDefault(const Message& message, const Field& field) {
  if (!field.is_repeated() || field.cpp_type() != Field::CPPTYPE_UINT32) return false;
  const uint32_t usual = field.name().starts_with("stride") || field.name() == "dilation" ? 1 : 0;
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    if (message.GetReflection()->GetRepeatedUInt32(message, &field, i) != usual) return false;
  }
  return true;
}

// The first value that differs from the default and with which the layer builds; none where there is none.
std::optional<LayerParameter> WithAnotherValue(const Example& example, const Field& param, const Field& field) {
  const LayerParameter& layer = example.net.layer(example.layer);
  const auto& reflection = *layer.GetReflection();
  for (const std::unique_ptr<Message>& variant : FieldVariants(reflection.GetMessage(layer, &param), field)) {
    const std::vector<const Field*> given = GivenFields(*variant);
    if (std::ranges::find(given, &field) == given.end()) continue;
    if (IsListAtDefault(*variant, field)) continue;
    NetParameter changed = example.net;
    LayerParameter& other = *changed.mutable_layer(example.layer);
    reflection.MutableMessage(&other, &param)->CopyFrom(*variant);
    if (!BuiltText(changed).starts_with("error: ")) return other;
  }
  return std::nullopt;
}

// Fields that change something in TEST alone or at sizes other than the examples', or that are compared with the
// bottoms.
bool IsReadOtherwise(const std::string& field) {
  static const std::set<std::string> fields = {"alphabet_size", "ceil_mode",    "global_pooling", "moving_average",
                                               "normalize",     "rescale_test", "round_mode",     "sample_weights_test",
                                               "time_step",     "torch_pooling"};
  return fields.contains(field);
}

TEST(LayerFields, AFieldThatChangesNothingInAnExampleIsSaidThere) {
  int said = 0;
  for (const LayerDef& def : AllLayers()) {
    const Example example = ExampleOf(def);
    if (example.net.layer(example.layer).bottom_size() == 0) continue;
    const std::vector<Shape> bottoms = BottomsOf(example);
    if (bottoms.empty()) continue;
    for (const std::string& name : def.params) {
      const Field& param = *LayerParameter::descriptor()->FindFieldByName(name);
      if (param.is_repeated()) continue;
      for (int i = 0; i < param.message_type()->field_count(); ++i) {
        const Field& field = *param.message_type()->field(i);
        if (field.name() == "origin" || field.message_type() != nullptr || IsListed(def.type, name, field)) continue;
        if (MakesADifference(example, param, field)) continue;
        const std::optional<LayerParameter> given = WithAnotherValue(example, param, field);
        if (!given) continue;
        const std::string path = StrCat(name, ".", field.name());
        const std::vector<MootField> moot = MootFieldsOf(*given, bottoms);
        const bool is_said = std::ranges::any_of(moot, [&](const MootField& each) { return each.path == path; });
        said += is_said ? 1 : 0;
        EXPECT_TRUE(is_said || IsReadOtherwise(field.name())) << def.type << " " << path;
      }
    }
  }
  EXPECT_GT(2 * said, std::ssize(AllLayers()));
}

TEST(LayerFields, MessagesThatALayerDoesNotNameChangeNothing) {
  const auto* descriptor = LayerParameter::descriptor();
  for (const LayerDef& def : AllLayers()) {
    const Example example = ExampleOf(def);
    if (example.net.layer(example.layer).bottom_size() == 0) continue;  // shapes are guessed from whatever is given
    for (int i = 0; i < descriptor->field_count(); ++i) {
      const Field& param = *descriptor->field(i);
      const bool is_named = std::ranges::find(def.params, param.name()) != def.params.end();
      if (param.message_type() == nullptr || !param.name().ends_with("_param") || param.is_repeated() || is_named)
        continue;
      NetParameter changed = example.net;
      LayerParameter& layer = *changed.mutable_layer(example.layer);
      Message& message = *layer.GetReflection()->MutableMessage(&layer, &param);
      for (int k = 0; k < param.message_type()->field_count(); ++k) {
        const Field& field = *param.message_type()->field(k);
        if (field.message_type() != nullptr) continue;
        const std::vector<std::unique_ptr<Message>> variants = FieldVariants(message, field);
        if (!variants.empty()) message.CopyFrom(*variants.back());
      }
      EXPECT_EQ(BuiltText(changed), example.plain) << def.type << " reads " << param.name() << ", which its page lacks";
    }
  }
}

TEST(LayerFields, TheTablesNameFieldsOfTheSchema) {
  for (const UnreadFields& row : FieldsNothingReads()) {
    const auto* message =
        google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName("moka." + row.owner);
    ASSERT_NE(message, nullptr) << row.owner;
    for (const std::string& field : row.fields)
      EXPECT_NE(message->FindFieldByName(field), nullptr) << row.owner << field;
  }
  for (const UnreadFields& row : FieldsLayersDoNotRead()) {
    EXPECT_TRUE(FindLayer(row.owner) != nullptr || IsLeftOut(row.owner)) << row.owner;
    const Field* param = LayerParameter::descriptor()->FindFieldByName(row.param);
    ASSERT_NE(param, nullptr) << row.param;
    for (const std::string& field : row.fields) {
      EXPECT_NE(param->message_type()->FindFieldByName(field), nullptr) << row.owner << field;
    }
  }
}

std::vector<std::string> SaidOf(const std::string& layers) {
  return UnreadNetFields(NetFromText(layers, "n.prototxt"));
}

TEST(LayerFields, WhatChangesNothingIsSaidAtItsPlace) {
  using testing::AllOf;
  using testing::ElementsAre;
  using testing::HasSubstr;
  EXPECT_THAT(
      SaidOf("layer { name: \"ip\" type: \"InnerProduct\"\n  convolution_param { kernel_size: 3 }\n"
             " inner_product_param { num_output: 3 } }"),
      ElementsAre(AllOf(HasSubstr("n.prototxt:2:3: convolution_param of layer \"ip\" (InnerProduct) is not read"),
                        HasSubstr("what reads it: Convolution"))));
  const std::string engine = "type: \"Convolution\" convolution_param { num_output: 1 kernel_size: 1 engine: CAFFE } }";
  EXPECT_THAT(
      SaidOf(StrCat("layer { name: \"a\" ", engine, " layer { name: \"b\" ", engine, " layer { name: \"c\" ", engine)),
      ElementsAre(AllOf(HasSubstr("convolution_param.engine of layer \"a\""), HasSubstr("as in 2 more"))));
  EXPECT_THAT(
      SaidOf("layer { name: \"s\" type: \"Softmax\" softmax_param { axis: 1 } loss_param { ignore_label: 1 } }"),
      ElementsAre(HasSubstr("loss_param of layer \"s\" (Softmax) is not read")));
  EXPECT_THAT(SaidOf("layer { name: \"h\" type: \"MemoryData\" image_data_param { batch_size: 5 } }"),
              ElementsAre(HasSubstr("image_data_param of layer \"h\"")));
  EXPECT_THAT(SaidOf("layer { name: \"ip\" type: \"InnerProduct\" inner_product_param { num_output: 3 }\n"
                     " param { lr_mult: 1 } param { force_mult: 2 } }"),
              ElementsAre(HasSubstr("n.prototxt:2:31: param[1].force_mult of layer \"ip\"")));
  EXPECT_THAT(
      SaidOf("layer { name: \"l\" type: \"ConvLSTM\" lstm_conv_param { num_output: 3 kernel_size: 3 axis: 2 } }"),
      ElementsAre(HasSubstr("lstm_conv_param[0].axis of layer \"l\"")));
  EXPECT_THAT(SaidOf("layer { name: \"d\" type: \"ImageData\" top: \"x\" top: \"y\" image_data_param { source: \"l\" "
                     "new_length: 7 label_type: NONE } }"),
              ElementsAre(HasSubstr("image_data_param.label_type of layer \"d\" (ImageData) is not read by layers of"),
                          HasSubstr("image_data_param.new_length")));
  EXPECT_THAT(SaidOf("layer { name: \"d\" type: \"Data\" top: \"x\" data_param { source: \"l\" random: true } }"),
              ElementsAre(HasSubstr("data_param.random of layer \"d\" (Data) is not read by layers of this type")));
  EXPECT_THAT(SaidOf("debug_info: true layer { name: \"r\" type: \"ReLU\" }"),
              ElementsAre(HasSubstr("n.prototxt:1:1: debug_info changes nothing")));
  EXPECT_THAT(SaidOf("layer { name: \"c\" type: \"Convolution\" convolution_param { num_output: 1 engine: DEFAULT } }"),
              ElementsAre())
      << "a default says what is so without it";
}

TEST(LayerFields, WhatForksDoAndMokaDoesNotIsSaidSo) {
  using testing::AllOf;
  using testing::ElementsAre;
  using testing::HasSubstr;
  const std::string is_not_done = "is not done by Moka: the fork of Caffe that has this field acts on it";
  const auto data = [](const std::string& fields) {
    return SaidOf(StrCat("layer { name: \"d\" type: \"Data\" top: \"x\" transform_param { ", fields, " } }"));
  };
  EXPECT_THAT(data("random_aspect_ratio_param { min_area_ratio: 0.2 }"),
              ElementsAre(AllOf(HasSubstr("n.prototxt:1:59: transform_param.random_aspect_ratio_param of layer \"d\""),
                                HasSubstr(is_not_done))));
  for (const char* field : {"img_rand_resize_lower: 256", "vertical_stretch_upper: 1.5", "multi_view: true",
                            "noise_param { saltpepper: true saltpepper_param { fraction: 0.1 } }"}) {
    EXPECT_THAT(data(field), testing::Each(HasSubstr(is_not_done))) << field;
    EXPECT_THAT(data(field), testing::Not(testing::IsEmpty())) << field;
  }
  EXPECT_THAT(data("horizontal_stretch_upper: 1 img_rand_resize_upper: 0"), ElementsAre());
  EXPECT_THAT(data("noise_param { saltpepper_param { fraction: 0 } }"),
              ElementsAre(HasSubstr("it changes nothing here")));
  EXPECT_THAT(data("use_gpu_transform: true"), ElementsAre(HasSubstr("it changes nothing here")));
  EXPECT_THAT(SaidOf("bn_stats_batch_size: 32 layer { name: \"r\" type: \"ReLU\" }"),
              ElementsAre(AllOf(HasSubstr("n.prototxt:1:1: bn_stats_batch_size "), HasSubstr(is_not_done))));
  EXPECT_THAT(SaidOf("layer { name: \"r\" type: \"ReLU\" quantization_param { bw_params: 8 } }"),
              ElementsAre(AllOf(HasSubstr("quantization_param of layer \"r\""), HasSubstr(is_not_done))));
}

TEST(LayerFields, NumbersThatAreNoneAreRefusedAtTheirPlace) {
  const auto error = [](const std::string& text) {
    try {
      CheckNetNumbers(NetFromText(text, "n.prototxt"));
    } catch (const Error& caught) {
      return std::string(caught.what());
    }
    return std::string();
  };
  EXPECT_THAT(error("layer { name: \"d\" type: \"Dropout\"\n dropout_param { dropout_ratio: nan } }"),
              testing::HasSubstr(
                  "n.prototxt:2:18: layer \"d\": dropout_param.dropout_ratio must be a finite number, found nan"));
  EXPECT_THAT(error("layer { convolution_param { weight_filler { value: nan } } }"),
              testing::HasSubstr("value must be a finite number"));
  EXPECT_THAT(error("layer { name: \"p\" param { lr_mult: 1 }\n param { breadth_decay_mult: nan } }"),
              testing::HasSubstr("n.prototxt:2:10: layer \"p\": param[1].breadth_decay_mult must be a finite number"));
  EXPECT_EQ(error("layer { name: \"c\" clip_param { min: 0 max: inf } }"), "");
}

}  // namespace
}  // namespace moka
