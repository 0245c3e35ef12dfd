// A run to serve, with settings of its own, and requests for it: for tests of serve.pbtxt, versions and shared memory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/tools/cli_fixture.h"
#include "tests/tools/serve/http_client.h"
#include "tests/tools/serve/server_process.h"

namespace moka {

class ModelsCliTest : public CliTest {
 protected:
  void SetUp() override { Run(); }
  void TearDown() override { fs::remove(folder_ / "runs/lenet-0001/serve.pbtxt"); }

  // Writes the settings of the run, which end with the test.
  static void Set(const std::string& text) { WriteFileAtomically(folder_ / "runs/lenet-0001/serve.pbtxt", text); }
  // Writes those of the model digits in a folder of models.
  static void SetDigits(const std::string& models, const std::string& text) {
    WriteFileAtomically(folder_ / models / "digits/serve.pbtxt", text);
  }
  // Returns the version that an address answers with, or its status.
  static std::string Answering(HttpClient& client, const std::string& path = "/v2/models/digits") {
    const Reply reply = client.Ask("POST", path + "/infer", Request());
    if (reply.status != 200) return StrCat(int64_t{reply.status});
    return Json::parse(reply.body)["model_version"].get<std::string>();
  }
  // Copies the run to a folder of this test's.
  static void Copy(const fs::path& to) {
    fs::create_directories((folder_ / to).parent_path());
    fs::copy(folder_ / "runs/lenet-0001", folder_ / to, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  }
  // Rows of the same number. `parameters`: of the request, with a comma before.
  static std::string Request(int64_t rows = 1, const std::string& parameters = {}) {
    std::string data = "0.5";
    for (int64_t i = 1; i < rows * 784; ++i) data += ",0.5";
    return StrCat(R"({"inputs":[{"name":"data","shape":[)", rows, R"(,1,28,28],"datatype":"FP32","data":[)", data,
                  "]}]", parameters, "}");
  }
  static inline const std::string kModel = "/v2/models/lenet-0001";
  static inline const std::string kInfer = kModel + "/infer";
};

}  // namespace moka
