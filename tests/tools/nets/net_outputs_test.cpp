// No field of any layer writes outside of the working folder: each text of each layer's messages is made a path that
// leads elsewhere, and the layer's own example is run.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "core/error.h"
#include "core/output_place.h"
#include "core/quiet_scope.h"
#include "core/text.h"
#include "layers/net/manual_page.h"
#include "layers/net/net.h"
#include "optim/layerwise/net.h"
#include "proto/nets/net_file.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using Field = google::protobuf::FieldDescriptor;
using google::protobuf::Message;

class NetOutputs : public testing::Test {
 protected:
  NetOutputs()
      : folder_(fs::temp_directory_path() / StrCat("moka_net_outputs_", getpid())), before_(fs::current_path()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "inside");
    fs::current_path(folder_ / "inside");
  }
  ~NetOutputs() override {
    fs::current_path(before_);
    fs::remove_all(folder_);
  }

  // Calls visit(set) for each text that a message of the type can hold, a few messages deep.
  static void VisitTexts(const google::protobuf::Descriptor& type, int depth,
                         const std::function<void(const std::function<void(Message&, const std::string&)>&)>& visit) {
    for (int i = 0; i < type.field_count(); ++i) {
      const Field* field = type.field(i);
      if (field->cpp_type() == Field::CPPTYPE_STRING) {
        visit([field](Message& message, const std::string& text) {
          const auto& reflection = *message.GetReflection();
          field->is_repeated() ? reflection.AddString(&message, field, text)
                               : reflection.SetString(&message, field, text);
        });
      } else if (field->cpp_type() == Field::CPPTYPE_MESSAGE && depth > 0) {
        VisitTexts(*field->message_type(), depth - 1, [&](const auto& set) {
          visit([field, &set](Message& message, const std::string& text) {
            const auto& reflection = *message.GetReflection();
            set(field->is_repeated() ? *reflection.AddMessage(&message, field)
                                     : *reflection.MutableMessage(&message, field),
                text);
          });
        });
      }
    }
  }

  // Builds and runs the net; whatever goes wrong is as good.
  static void Run(const NetParameter& net) {
    const QuietScope quiet;
    try {
      LayerwiseOptions options;
      options.state.set_phase(net.state().has_phase() ? net.state().phase() : TEST);
      LayerwiseNet built(net, options);
      ForwardAll(built);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    }
  }

  // How many of the texts of all layers made a file in the folder or beside the working folder.
  int Written(const std::string& path) {
    int written = 0;
    for (const LayerDef& def : AllLayers()) {
      const NetParameter example = NetFromText(ManualPageOf(def.type).example, "example");
      for (int i = 0; i < example.layer_size(); ++i) {
        if (example.layer(i).type() != def.type) continue;
        for (const std::string& param : def.params) {
          const Field* field = LayerParameter::descriptor()->FindFieldByName(param);
          if (field == nullptr || field->cpp_type() != Field::CPPTYPE_MESSAGE || field->is_repeated()) continue;
          VisitTexts(*field->message_type(), 1, [&](const auto& set) {
            NetParameter net = example;
            LayerParameter& layer = *net.mutable_layer(i);
            set(*layer.GetReflection()->MutableMessage(&layer, field), path);
            ++tried_;
            Run(net);
            std::error_code code;
            for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
              if (entry.path().filename() == "inside") continue;
              ++written;
              last_ = StrCat(def.type, ".", param);
              fs::remove_all(entry.path(), code);
            }
          });
        }
      }
    }
    return written;
  }

  fs::path folder_;
  fs::path before_;
  int tried_ = 0;
  std::string last_;
};

TEST_F(NetOutputs, StayBelowTheWorkingFolder) {
  EXPECT_GT(Written((folder_ / "absolute").string()), 0);  // a library's caller has not confined them: the sweep sees
  EXPECT_GT(tried_, 100);
  ConfineOutputs({});
  EXPECT_EQ(Written((folder_ / "absolute").string()), 0) << last_;
  EXPECT_EQ(Written("../up"), 0) << last_;
  fs::create_directory_symlink(folder_, "link");
  EXPECT_EQ(Written("link/name"), 0) << last_;
  ConfineOutputs(folder_);
  EXPECT_GT(Written("../up"), 0);
}

TEST_F(NetOutputs, NamesAreRefusedWithTheReason) {
  ConfineOutputs({});
  const auto reason = [](const fs::path& folder, const std::string& name) {
    try {
      return OutputPath(folder, name).string();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig);
      return error.text();
    }
  };
  EXPECT_EQ(reason("", "a/b.h5"), "a/b.h5");
  EXPECT_EQ(reason("run", "b.h5"), "run/b.h5");
  EXPECT_EQ(reason("run", "../b.h5"), "\"../b.h5\" leads out of run");
  EXPECT_EQ(reason("", "a/../b.h5"), "\"a/../b.h5\" leads out of the working folder");
  EXPECT_EQ(reason("", "/x/b"), "\"/x/b\" is an absolute path: files of nets go below the working folder");
  EXPECT_EQ(reason("", "a/"), "\"a/\" names no file");
}

}  // namespace
}  // namespace moka
