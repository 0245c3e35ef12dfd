// Every field of every message that a layer says it reads: set to other values in the layer's own example it changes
// what is built, is refused, or is among those that are said to be ignored.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/error.h"
#include "core/log.h"
#include "core/quiet_scope.h"
#include "core/text.h"
#include "graph/graph.h"
#include "layers/net.h"
#include "proto/net_file.h"
#include "tools/net_source.h"

namespace moka {
namespace {

using Field = google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// What a net becomes, as text: its graph, its blobs and their fillers, or why there is none.
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

// Values that a field of the kind may have, one message each.
std::vector<std::unique_ptr<Message>> Variants(const Message& message, const Field& field) {
  std::vector<std::unique_ptr<Message>> variants;
  const auto& reflection = *message.GetReflection();
  const auto add = [&](const auto& set) {
    std::unique_ptr<Message> copy(message.New());
    copy->CopyFrom(message);
    set(*copy);
    variants.push_back(std::move(copy));
  };
  switch (field.cpp_type()) {
    case Field::CPPTYPE_BOOL:
      for (const bool value : {false, true}) {
        add([&](Message& m) {
          field.is_repeated() ? reflection.AddBool(&m, &field, value) : reflection.SetBool(&m, &field, value);
        });
      }
      break;
    case Field::CPPTYPE_INT32:
    case Field::CPPTYPE_UINT32:
    case Field::CPPTYPE_INT64:
    case Field::CPPTYPE_UINT64:
      for (const int value : {0, 1, 2, 3, 5, 8, 64, 1000, -1}) {
        if (value < 0 && (field.cpp_type() == Field::CPPTYPE_UINT32 || field.cpp_type() == Field::CPPTYPE_UINT64))
          continue;
        for (const bool clears : {false, true}) {
          if (clears && !field.is_repeated()) continue;
          add([&](Message& m) {
            if (clears) reflection.ClearField(&m, &field);
            const bool many = field.is_repeated();
            const auto u = static_cast<uint32_t>(value);
            switch (field.cpp_type()) {
              case Field::CPPTYPE_INT32:
                many ? reflection.AddInt32(&m, &field, value) : reflection.SetInt32(&m, &field, value);
                break;
              case Field::CPPTYPE_UINT32:
                many ? reflection.AddUInt32(&m, &field, u) : reflection.SetUInt32(&m, &field, u);
                break;
              case Field::CPPTYPE_INT64:
                many ? reflection.AddInt64(&m, &field, value) : reflection.SetInt64(&m, &field, value);
                break;
              default: many ? reflection.AddUInt64(&m, &field, u) : reflection.SetUInt64(&m, &field, u);
            }
          });
        }
      }
      break;
    case Field::CPPTYPE_FLOAT:
    case Field::CPPTYPE_DOUBLE:
      for (const float value : {0.0F, 0.25F, 0.75F, 1.0F, 3.0F, -2.0F}) {
        for (const bool clears : {false, true}) {
          if (clears && !field.is_repeated()) continue;
          add([&](Message& m) {
            if (clears) reflection.ClearField(&m, &field);
            const bool many = field.is_repeated();
            if (field.cpp_type() == Field::CPPTYPE_FLOAT) {
              many ? reflection.AddFloat(&m, &field, value) : reflection.SetFloat(&m, &field, value);
            } else {
              many ? reflection.AddDouble(&m, &field, value) : reflection.SetDouble(&m, &field, value);
            }
          });
        }
      }
      break;
    case Field::CPPTYPE_ENUM:
      for (int i = 0; i < field.enum_type()->value_count(); ++i) {
        add([&](Message& m) {
          field.is_repeated() ? reflection.AddEnum(&m, &field, field.enum_type()->value(i))
                              : reflection.SetEnum(&m, &field, field.enum_type()->value(i));
        });
      }
      break;
    case Field::CPPTYPE_STRING:
      for (const char* value : {"", "other", "1,2"}) {
        add([&](Message& m) {
          field.is_repeated() ? reflection.AddString(&m, &field, value) : reflection.SetString(&m, &field, value);
        });
      }
      break;
    case Field::CPPTYPE_MESSAGE: {
      add([&](Message& m) {
        Message& inner =
            field.is_repeated() ? *reflection.AddMessage(&m, &field) : *reflection.MutableMessage(&m, &field);
        if (auto* filler = dynamic_cast<FillerParameter*>(&inner)) {
          filler->set_type("constant");
          filler->set_value(0.625F);
        }
      });
      break;
    }
  }
  return variants;
}

TEST(LayerFields, EveryFieldChangesWhatIsBuiltOrIsSaidToBeIgnored) {
  int read = 0;
  for (const LayerDef& def : AllLayers()) {
    const NetParameter example = NetFromText(def.page.example, "example");
    const std::string plain = BuiltText(example);
    int at = -1;
    for (int i = 0; i < example.layer_size(); ++i) {
      if (at < 0 && example.layer(i).type() == def.type) at = i;
    }
    ASSERT_GE(at, 0) << def.type;
    for (const std::string& name : def.page.params) {
      const Field& param = *LayerParameter::descriptor()->FindFieldByName(name);
      const LayerParameter& layer = example.layer(at);
      const auto& reflection = *layer.GetReflection();
      const bool is_list = param.is_repeated();
      if (is_list && reflection.FieldSize(layer, &param) == 0) continue;
      const Message& message =
          is_list ? reflection.GetRepeatedMessage(layer, &param, 0) : reflection.GetMessage(layer, &param);
      for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
        const Field& field = *message.GetDescriptor()->field(i);
        if (field.name() == "origin") continue;
        bool is_read = false;
        for (const std::unique_ptr<Message>& variant : Variants(message, field)) {
          NetParameter changed = example;
          LayerParameter& other = *changed.mutable_layer(at);
          (is_list ? reflection.MutableRepeatedMessage(&other, &param, 0) : reflection.MutableMessage(&other, &param))
              ->CopyFrom(*variant);
          is_read = is_read || BuiltText(changed) != plain;
          if (is_read) break;
        }
        read += is_read ? 1 : 0;
        if (!is_read) std::printf("UNREAD %s %s.%s\n", def.type.c_str(), name.c_str(), field.name().c_str());
      }
    }
  }
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace moka
