// Tensors in shared memory over HTTP: the same answers as through the wire, and nothing beyond what was registered.
#include "tests/tools/serve/shared_memory.h"

#include <gmock/gmock.h>

#include "tests/tools/serve/models_cli_fixture.h"

namespace moka {
namespace {

using testing::HasSubstr;

constexpr int64_t kRow = 3136;  // bytes of an input
constexpr int64_t kProb = 40;   // of an output

std::string Place(const std::string& region, int64_t bytes, int64_t offset = 0) {
  return StrCat(R"("parameters":{"shared_memory_region":")", region, R"(","shared_memory_byte_size":)", bytes,
                R"(,"shared_memory_offset":)", offset, "}");
}
// A row whose numbers lie where `input` says; the answer goes where `output` says.
std::string Placed(const std::string& input, const std::string& output = {}) {
  const std::string outputs = output.empty() ? "" : StrCat(R"(,"outputs":[{"name":"prob",)", output, "}]");
  return StrCat(R"({"inputs":[{"name":"data","shape":[1,1,28,28],"datatype":"FP32",)", input, "}]", outputs, "}");
}
Reply Register(HttpClient& client, const std::string& name, const std::string& key, int64_t bytes, int64_t offset = 0) {
  return client.Ask("POST", StrCat("/v2/systemsharedmemory/region/", name, "/register"),
                    StrCat(R"({"key":")", key, R"(","byte_size":)", bytes, R"(,"offset":)", offset, "}"));
}
std::vector<float> Row() {
  std::vector<float> row(784);
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i % 13) / 13;
  return row;
}

TEST_F(ModelsCliTest, AnswersAreThoseOfTheWire) {
  const ServerProcess server(folder_, {"runs/lenet-0001", "--shared-memory"});
  HttpClient client(server.port());
  const OwnMemory memory("both", 8192);
  const std::vector<float> row = Row();
  memory.Write(row, 1024);
  const std::string_view bytes(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float));
  const std::string json = Placed(R"("parameters":{"binary_data_size":3136})");
  const Json sent = Json::parse(client
                                    .Ask("POST", kInfer, json + std::string(bytes),
                                         StrCat("Inference-Header-Content-Length: ", json.size(), "\r\n"))
                                    .body);
  ASSERT_EQ(Register(client, "both", memory.key(), 7000, 512).status, 200);
  const Json status = Json::parse(client.Ask("GET", "/v2/systemsharedmemory/region/both/status").body);
  EXPECT_EQ(status,
            Json::parse(StrCat(R"([{"name":"both","key":")", memory.key(), R"(","offset":512,"byte_size":7000}])")));
  EXPECT_EQ(Json::parse(client.Ask("GET", "/v2/systemsharedmemory/status").body), status);
  EXPECT_THAT(client.Ask("GET", "/v2").body, HasSubstr("system_shared_memory"));
  // Behind the region's begin, which is behind the memory's.
  const Reply read = client.Ask("POST", kInfer, Placed(Place("both", kRow, 512)));
  ASSERT_EQ(read.status, 200) << read.body;
  EXPECT_EQ(Json::parse(read.body)["outputs"], sent["outputs"]);
  const Reply written = client.Ask("POST", kInfer, Placed(Place("both", kRow, 512), Place("both", 100, 4096)));
  ASSERT_EQ(written.status, 200) << written.body;
  const Json output = Json::parse(written.body)["outputs"][0];
  EXPECT_FALSE(output.contains("data"));
  EXPECT_EQ(output["parameters"]["shared_memory_byte_size"], kProb);
  EXPECT_EQ(output["shape"], Json({1, 10}));
  EXPECT_EQ(memory.Read(512 + 4096, 10), sent["outputs"][0]["data"].get<std::vector<float>>());
  EXPECT_EQ(memory.Read(512 + 4096 + kProb, 1)[0], 0);
  EXPECT_EQ(client.Ask("POST", "/v2/systemsharedmemory/region/both/unregister").status, 200);
  EXPECT_EQ(client.Ask("POST", kInfer, Placed(Place("both", kRow, 512))).status, 400);
  EXPECT_EQ(client.Ask("POST", "/v2/systemsharedmemory/unregister").status, 200);
  EXPECT_EQ(client.Ask("GET", "/v2/systemsharedmemory/region/both/status").status, 404);
}

TEST_F(ModelsCliTest, NothingBeyondARegionIsTouched) {
  const ServerProcess server(folder_, {"runs/lenet-0001", "--shared-memory"});
  HttpClient client(server.port());
  const OwnMemory memory("small", 4096);
  const auto refused = [&](const Reply& reply, int status, const std::string& words) {
    EXPECT_EQ(reply.status, status) << reply.body;
    EXPECT_THAT(reply.body, HasSubstr(words));
  };
  refused(Register(client, "r", "/etc/passwd", 10), 400, "is no name of shared memory");
  refused(Register(client, "r", "../etc/passwd", 10), 400, "is no name of shared memory");
  refused(Register(client, "r", "/..", 10), 400, "is no name of shared memory");
  refused(Register(client, "r", "/moka_test_nothing", 10), 400, "no shared memory of the server's user");
  const std::string link = StrCat("/dev/shm/moka_test_link_", int64_t{getpid()});
  fs::remove(link);
  fs::create_symlink("/etc/passwd", link);
  refused(Register(client, "r", fs::path(link).filename().string(), 10), 400, "no shared memory of the server's user");
  fs::remove(link);
  refused(Register(client, "r", memory.key(), 4097), 400, "ends beyond its memory, which has 4096 bytes");
  refused(Register(client, "r", memory.key(), 1, INT64_MAX), 400, "ends beyond its memory");
  refused(Register(client, "r", memory.key(), INT64_MAX, 4096), 400, "ends beyond its memory");
  refused(Register(client, "r", memory.key(), 0), 400, "has no bytes");
  refused(Register(client, "r", memory.key(), -1), 400, "byte_size is no number of bytes");
  refused(client.Ask("POST", "/v2/systemsharedmemory/region/r/register", R"({"key":"a","byte_size":1,"size":2})"), 400,
          "unknown field");
  refused(client.Ask("POST", "/v2/systemsharedmemory/region/r/unregister"), 404, "there is no shared memory region");
  ASSERT_EQ(Register(client, "r", memory.key(), 4000).status, 200);
  refused(Register(client, "r", memory.key(), 4000), 400, "is registered already");
  const auto infer = [&](const std::string& input, const std::string& output = {}) {
    return client.Ask("POST", kInfer, Placed(input, output));
  };
  refused(infer(Place("other", kRow)), 400, "there is no shared memory region \\\"other\\\"");
  refused(infer(Place("r", kRow, 1000)), 400, "are no part of");
  refused(infer(Place("r", kRow, INT64_MAX)), 400, "are no part of");
  refused(infer(Place("r", kRow, -1)), 400, "are no part of");
  refused(infer(Place("r", kRow - 4)), 400, "shared_memory_byte_size is 3132, and its shape is of 3136 bytes");
  refused(infer(Place("r", kRow), Place("r", kProb - 1)), 400, "has 40 bytes, and shared_memory_byte_size is 39");
  refused(infer(R"("parameters":{"shared_memory_region":"r"})"), 400, "belong together");
  refused(infer(StrCat(R"("data":[1],)", Place("r", kRow))), 400, "has data beside its shared memory");
  EXPECT_EQ(infer(Place("r", kRow)).status, 200);
  // Memory that its owner makes smaller meanwhile.
  memory.Resize(100);
  refused(infer(Place("r", kRow)), 400, "has become smaller");
  std::string zeros = "0";
  for (int i = 1; i < 784; ++i) zeros += ",0";
  refused(infer(StrCat("\"data\":[", zeros, "]"), Place("r", kProb, 200)), 400, "has become smaller");
  memory.Resize(4096);
  EXPECT_EQ(infer(Place("r", kRow)).status, 200);
  for (int i = 1; i < 64; ++i) EXPECT_EQ(Register(client, StrCat("n", int64_t{i}), memory.key(), 1).status, 200);
  refused(Register(client, "last", memory.key(), 1), 503, "there are 64 regions");
}

TEST_F(ModelsCliTest, OneRegionGoesByItsAddress) {
  const ServerProcess server(folder_, {"runs/lenet-0001", "--shared-memory"});
  HttpClient client(server.port());
  const OwnMemory memory("two", 4096);
  for (const char* name : {"a", "b"}) EXPECT_EQ(Register(client, name, memory.key(), 4096).status, 200);
  const Reply all = client.Ask("POST", "/v2/systemsharedmemory/unregister", R"({"name":"a"})");
  EXPECT_EQ(all.status, 400);
  EXPECT_THAT(all.body, HasSubstr("region/NAME/unregister"));
  EXPECT_EQ(client.Ask("POST", "/v2/systemsharedmemory/region/a/unregister", "{}").status, 200);
  const Json left = Json::parse(client.Ask("GET", "/v2/systemsharedmemory/status").body);
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0]["name"], "b");
}

TEST_F(ModelsCliTest, ItIsOffUnlessAskedFor) {
  const ServerProcess server(folder_, {"runs/lenet-0001"});
  HttpClient client(server.port());
  const OwnMemory memory("off", 4096);
  const Reply reply = Register(client, "r", memory.key(), 4096);
  EXPECT_EQ(reply.status, 403);
  EXPECT_THAT(reply.body, HasSubstr("moka serve --shared-memory does"));
  EXPECT_EQ(client.Ask("GET", "/v2/systemsharedmemory/status").status, 403);
  EXPECT_EQ(client.Ask("POST", kInfer, Placed(Place("r", kRow))).status, 400);
  EXPECT_EQ(client.Ask("GET", "/v2").body.find("system_shared_memory"), std::string::npos);
}

}  // namespace
}  // namespace moka
