// The protocol's tensors: right ones give their numbers, wrong ones say which part is wrong.
#include <gmock/gmock.h>

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "tools/serve/call_address.h"
#include "tools/serve/infer_job.h"
#include "tools/serve/multipart.h"
#include "tools/serve/service.h"
#include "tools/serve/wire_tensor.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

InferRequest Read(std::string body, std::optional<int64_t> json_bytes = {}) {
  return ReadInferRequest(body, json_bytes);
}

std::string Fault(const std::string& body, std::optional<int64_t> json_bytes = {}) {
  try {
    (void)Read(body, json_bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadData);
    return error.what();
  }
  return "no fault";
}

std::string Bytes(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(WireTest, NumbersAreReadFlatAndNested) {
  const InferRequest flat = Read(
      R"({"id":"a","inputs":[{"name":"x","shape":[2,2],"datatype":"FP32","data":[1,-2.5,3e-3,4]}],)"
      R"("outputs":[{"name":"p","parameters":{"classification":3}},{"name":"q","parameters":{"binary_data":true}}],)"
      R"("parameters":{"priority":2,"timeout":5000,"binary_data_output":true}})");
  EXPECT_EQ(flat.id, "a");
  ASSERT_EQ(flat.inputs.size(), 1U);
  EXPECT_THAT(flat.inputs[0].shape, ElementsAre(2, 2));
  EXPECT_THAT(flat.inputs[0].values, ElementsAre(1.0F, -2.5F, 3e-3F, 4.0F));
  ASSERT_EQ(flat.outputs.size(), 2U);
  EXPECT_EQ(flat.outputs[0].classes, 3);
  EXPECT_FALSE(flat.outputs[0].is_binary.has_value());
  EXPECT_EQ(flat.outputs[1].is_binary, true);
  EXPECT_TRUE(flat.are_outputs_binary);
  EXPECT_EQ(flat.priority, 2);
  EXPECT_EQ(flat.timeout_us, 5000);
  const InferRequest nested =
      Read(R"({"inputs":[{"name":"x","shape":[1,2,2],"datatype":"FP32","data":[[[1,2],[3,4]]]}]})");
  EXPECT_THAT(nested.inputs[0].values, ElementsAre(1.0F, 2.0F, 3.0F, 4.0F));
  const InferRequest unordered = Read(R"({"inputs":[{"data":[1,2],"datatype":"FP32","name":"x","shape":[2]}]})");
  EXPECT_THAT(unordered.inputs[0].values, ElementsAre(1.0F, 2.0F));
  const InferRequest texts = Read(R"({"inputs":[{"name":"x","shape":[2],"datatype":"BYTES","data":["a\n","b"]}]})");
  EXPECT_THAT(texts.inputs[0].texts, ElementsAre("a\n", "b"));
}

TEST(WireTest, ListsLieAsTheShapeDoes) {
  const auto with = [](const std::string& shape, const std::string& data) {
    return StrCat(R"({"inputs":[{"name":"x","shape":)", shape, R"(,"datatype":"FP32","data":)", data, "}]}");
  };
  for (const auto& [shape, data] : {std::pair("[2,1,2]", "[[1,2],[3,4]]"),
                                    {"[2,1,2]", "[[[1,2]],[[3,4]]]"},
                                    {"[1,4]", "[[1,2,3,4]]"},
                                    {"[4]", "[1,2,3,4]"},
                                    {"[2,2,1]", "[[1,2],[3,4]]"},
                                    {"[1,2,2]", "[[1,2],[3,4]]"},
                                    {"[1,2,2]", "[[1,2,3,4]]"},
                                    {"[2,2,1]", "[[[1],[2]],[[3],[4]]]"},
                                    {"[1,1,4,1]", "[[[[1],[2],[3],[4]]]]"}}) {
    EXPECT_THAT(Read(with(shape, data)).inputs[0].values, ElementsAre(1.0F, 2.0F, 3.0F, 4.0F)) << shape << data;
  }
  EXPECT_THAT(Fault(with("[2,3]", "[[1,2],[3,4],[5,6]]")),
              HasSubstr("input \"x\".data has lists of [3,2], and its shape is [2,3]; nest them as the shape's"));
  EXPECT_THAT(Fault(with("[4,1]", "[[1,2],[3,4]]")), HasSubstr("lists of [2,2]"));
  EXPECT_THAT(Fault(with("[2,2]", "[[1],[2,3,4]]")), HasSubstr("has lists of 1 and of 3 beside each other"));
  EXPECT_THAT(Fault(with("[3]", "[1,[2,3]]")), HasSubstr("elements and lists of them beside each other"));
  EXPECT_THAT(
      Fault(R"({"inputs":[{"name":"x","shape":[2,3],"datatype":"BYTES","data":[["a","b"],["c","d"],["e","f"]]}]})"),
      HasSubstr("lists of [3,2]"));
}

TEST(WireTest, WhatIsAcceptedIsReadEntryByEntry) {
  const auto quality = [](std::string_view accept, std::string_view media) {
    return AcceptedOf(accept, media).quality;
  };
  EXPECT_EQ(quality("image/png", "image/png"), 1);
  EXPECT_EQ(quality("IMAGE/PNG;Q=0.5", "image/png"), 0.5);
  EXPECT_EQ(quality("image/png;q=0, application/json", "image/png"), 0);
  EXPECT_EQ(quality("application/json, image/png;q=0.25", "image/png"), 0.25);
  EXPECT_EQ(quality("image/pngs", "image/png"), 0);
  EXPECT_EQ(quality("*/*;q=0.1, image/*;q=0.2", "image/png"), 0.2);
  EXPECT_EQ(quality("*/*;q=0.1, image/*", "application/json"), 0.1);
  EXPECT_EQ(quality("", "application/json"), 0);
  EXPECT_TRUE(AcceptedOf("image/*", "image/png").is_named);
  EXPECT_FALSE(AcceptedOf("*/*", "image/png").is_named);
}

TEST(WireTest, BytesFollowTheJson) {
  const std::string json =
      R"({"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}},)"
      R"({"name":"y","shape":[2],"datatype":"BYTES","parameters":{"binary_data_size":11}}]})";
  std::string texts("\x02\0\0\0ab\x01\0\0\0c", 11);
  const InferRequest request = Read(json + Bytes({1.5F, -2}) + texts, std::ssize(json));
  EXPECT_THAT(request.inputs[0].values, ElementsAre(1.5F, -2.0F));
  EXPECT_THAT(request.inputs[1].texts, ElementsAre("ab", "c"));
  EXPECT_THAT(Fault(json + Bytes({1, 2}) + texts + "more", std::ssize(json)),
              HasSubstr("4 bytes that belong to no input"));
  EXPECT_THAT(Fault(json + Bytes({1}), std::ssize(json)), HasSubstr("binary_data_size is 8, and 4 bytes are left"));
  EXPECT_THAT(Fault(json, std::ssize(json) + 1), HasSubstr("and the body has"));
  texts[0] = '\x7F';
  EXPECT_THAT(Fault(json + Bytes({1, 2}) + texts, std::ssize(json)),
              HasSubstr("an element of 127 bytes, of which 7 came"));
}

TEST(WireTest, FaultsNameTheirPlace) {
  const auto with = [](const std::string& input) { return StrCat("{\"inputs\":[{", input, "}]}"); };
  const std::string shape = R"("name":"x","shape":[2],"datatype":"FP32",)";
  EXPECT_THAT(Fault(with(shape + R"("data":[1,"a"])")), HasSubstr("input \"x\": value 1 is no number"));
  EXPECT_THAT(Fault(with(shape + R"("data":[1,1e39])")), HasSubstr("input \"x\": value 1 is beyond FP32"));
  EXPECT_THAT(Fault(with(shape + R"("data":[1,1e999])")), HasSubstr("input \"x\": value 1 is"));
  EXPECT_THAT(Fault(with(shape + R"("data":[1,NaN])")), HasSubstr("input \"x\""));
  EXPECT_THAT(Fault(with(shape + R"("data":[1])")), HasSubstr("data holds 1 values, and its shape [2] is of 2"));
  EXPECT_THAT(Fault(with(shape + R"("data":[1,2],"parameters":{"binary_data_size":8})")),
              HasSubstr("has data and binary_data_size"));
  EXPECT_THAT(Fault(with(R"("name":"x","shape":[2],"datatype":"FP32")")),
              HasSubstr("neither data nor binary_data_size"));
  EXPECT_THAT(Fault(with(R"("name":"x","shape":[2],"datatype":"FP31","data":[1,2])")),
              HasSubstr("the datatype \"FP31\""));
  EXPECT_THAT(Fault(with(R"("name":"x","shape":[1],"datatype":"FP16","data":[1])")),
              HasSubstr("binary_data_size sends"));
  EXPECT_THAT(Fault(with(R"("name":"x","shape":[-1],"datatype":"FP32","data":[1])")), HasSubstr("a dimension of -1"));
  EXPECT_THAT(Fault(with(R"("name":"x","shape":[65536,65536,65536,65536,65536],"datatype":"FP32","data":[1])")),
              HasSubstr("is of more than"));
  EXPECT_THAT(Fault(with(shape + R"("dta":[1,2])")), HasSubstr("unknown field \"dta\"; did you mean \"data\"?"));
  EXPECT_THAT(Fault(with(shape + R"("data":[1,2],"name":"y")")), HasSubstr("has \"name\" twice"));
  EXPECT_THAT(Fault(R"({"inputs":[]})"), HasSubstr("no inputs"));
  EXPECT_THAT(Fault("{"), HasSubstr("the request, an object: JSON document ended early"));
  EXPECT_THAT(Fault(R"([1])"), HasSubstr("an object"));
  EXPECT_THAT(Fault(""), HasSubstr("the request"));
  EXPECT_THAT(Fault(with(shape + R"("data":[1,2])") + "{}"), HasSubstr("stands behind the request's JSON"));
  EXPECT_THAT(Fault(with(shape + StrCat("\"data\":", std::string(1000, '['), std::string(1000, ']')))),
              HasSubstr("nested deeper"));
  std::string many = R"({"name":"x","shape":[1],"datatype":"FP32","data":[1]})";
  for (int i = 0; i < 256; ++i) many += StrCat(R"(,{"name":"x)", i, R"(","shape":[1],"datatype":"FP32","data":[1]})");
  EXPECT_THAT(Fault(StrCat("{\"inputs\":[", many, "]}")), HasSubstr("more than 256 inputs"));
  EXPECT_LT(Fault(with(StrCat("\"", std::string(100000, 'a'), "\":1"))).size(), 1000U);
  const std::string twice = R"({"name":"x","shape":[1],"datatype":"FP32","data":[1]})";
  EXPECT_THAT(Fault(StrCat("{\"inputs\":[", twice, ",", twice, "]}")), HasSubstr("input \"x\" is there twice"));
  EXPECT_THAT(Fault(R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}],"parameters":{"prio":1}})"),
              HasSubstr("unknown field \"prio\""));
}

TEST(WireTest, AnswersAreReadBackAsTheSameFloats) {
  InferAnswer answer{.model = "m\"", .version = "1", .id = "7", .outputs = {}};
  const std::vector<float> values = {0.1F, -3.4028235e38F, 1e-45F, 16777217.0F};
  answer.outputs.push_back({.name = "p", .shape = {2, 2}, .values = values});
  std::optional<int64_t> json_bytes;
  const auto json = nlohmann::json::parse(WriteInferAnswer(answer, json_bytes));
  EXPECT_FALSE(json_bytes.has_value());
  EXPECT_EQ(json["model_name"], "m\"");
  EXPECT_EQ(json["outputs"][0]["data"].get<std::vector<float>>(), values);
  answer.outputs[0].is_binary = true;
  const std::string body = WriteInferAnswer(answer, json_bytes);
  ASSERT_TRUE(json_bytes.has_value());
  EXPECT_EQ(body.substr(static_cast<size_t>(*json_bytes)), Bytes(values));
  EXPECT_EQ(nlohmann::json::parse(
                body.substr(0, static_cast<size_t>(*json_bytes)))["outputs"][0]["parameters"]["binary_data_size"],
            16);
  answer.outputs[0].is_binary = false;
  answer.outputs[0].values[1] = std::numeric_limits<float>::infinity();
  EXPECT_THROW((void)WriteInferAnswer(answer, json_bytes), Error);
}

TEST(WireTest, ClassesAreRanked) {
  EXPECT_THAT(ClassTexts({0.25F, 0.5F, 0.25F, 1, 0, 0}, 2, 2, {"a", "b"}),
              ElementsAre("0.5:1:b", "0.25:0:a", "1:0:a", "0:1:b"));
  EXPECT_THAT(ClassTexts({1, 2}, 1, 5, {}), ElementsAre("2:1", "1:0"));
}

TEST(WireTest, PathsAreSplitAndFormsAreRead) {
  EXPECT_THAT(PathParts("/v2/models/a%20b/infer"), ElementsAre("v2", "models", "a b", "infer"));
  EXPECT_THAT(PathParts("/v2/%zz"), ElementsAre(""));
  HttpRequest form;
  form.headers = {{"content-type", "multipart/form-data; boundary=\"B\""}};
  form.body = "--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.jpg\"\r\n\r\nby\r\ntes\r\n--B--\r\n";
  const SentFile sent = SentFileOf(form, "");
  EXPECT_EQ(sent.name, "a.jpg");
  EXPECT_EQ(sent.bytes, "by\r\ntes");
  form.body = "--B\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\n1\r\n--B--\r\n";
  EXPECT_THROW((void)SentFileOf(form, ""), Error);
  form.body = "--B\r\nContent-Disposition: form-data; filename=\"a\"\r\n\r\n1";
  EXPECT_THROW((void)SentFileOf(form, ""), Error);
}

// Elements take more memory than their bytes: a body of 64 MiB could hold twenty million.
TEST(WireTest, TextsAreCounted) {
  std::string most = R"("")";
  for (int i = 1; i < 65'536; ++i) most += R"(,"")";
  const std::string head = R"({"inputs":[{"name":"x","shape":[65536],"datatype":"BYTES","data":[)";
  EXPECT_EQ(Read(head + most + "]}]}").inputs[0].texts.size(), 65'536U);
  EXPECT_THAT(Fault(head + most + R"(,""]}]})"), HasSubstr("has more than 65536 elements"));
  const std::string json = R"({"inputs":[{"name":"x","shape":[65537],"datatype":"BYTES",)"
                           R"("parameters":{"binary_data_size":262148}}]})";
  EXPECT_THAT(Fault(json + std::string(262'148, '\0'), std::ssize(json)), HasSubstr("has more than 65536 elements"));
}

TEST(WireTest, TextsOfFilesLoseTheirFolders) {
  EXPECT_EQ(WithoutFolders("cannot open /srv/models/a/weights.safetensors: No such file"),
            "cannot open weights.safetensors: No such file");
  EXPECT_EQ(WithoutFolders("/srv/m/serve.pbtxt:3:1: \"/x/y\" (/z/w) http://here/v2 a/b"),
            "serve.pbtxt:3:1: \"y\" (w) http://here/v2 a/b");
  EXPECT_EQ(
      FailureOf(Error(ErrorKind::kConfig, SourcePlace{.file = "/srv/my models/serve.pbtxt", .line = 2}, "no")).text,
      "serve.pbtxt:2: no");
}

// A token is looked up once, before the body where that is waited for.
TEST(WireTest, WhoAsksIsKnownFromTheHead) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / StrCat("moka_tokens_", static_cast<int64_t>(getpid()));
  WriteFileAtomically(file, StrCat("me:", Sha256("one"), ":user\n"));
  ModelRepository repository({}, ModelLoader());
  NetQueue queue(NetQueueLimits{});
  Service service(repository, queue, false, Tokens(file));
  std::filesystem::remove(file);
  const auto answer = [&](HttpRequest request) {
    HttpAnswer got;
    service.Handle(std::move(request), HttpRespond([&](const HttpMakeAnswer& make) { got = make(); }));
    return got;
  };
  HttpRequest request{.method = "POST", .path = "/v2/repository/index"};
  EXPECT_EQ(answer(request).status, 401);
  request.headers = {{"authorization", "Bearer one"}};
  EXPECT_EQ(answer(request).status, 200);
  EXPECT_FALSE(service.Gate(request));
  EXPECT_EQ(request.owner->name, "me");
  request.headers.clear();
  EXPECT_EQ(answer(request).status, 200);
  EXPECT_EQ(answer(request).facts.user, "me");
  request.headers = {{"authorization", "Bearer two"}};
  EXPECT_EQ(service.Gate(request)->status, 401);
  EXPECT_EQ(answer(request).status, 401);
}

// Costs of runs of 1, 2, 4 and 8 rows.
TEST(WireTest, BatchesAreChosenByTheirTimes) {
  const std::vector<Rung> steep = {{1, 1.0}, {2, 1.1}, {4, 1.3}, {8, 1.7}};  // more is nearly free
  EXPECT_EQ(NextRung(steep, 1).rows, 1);
  EXPECT_EQ(NextRung(steep, 3).rows, 4);  // padded: 1.3 rather than 1.1 + 1
  EXPECT_EQ(NextRung(steep, 100).rows, 8);
  EXPECT_NEAR(PredictedMs(steep, 9), 2.7, 1e-12);
  const std::vector<Rung> flat = {{1, 1.0}, {2, 2.5}, {4, 4.1}, {8, 9.0}};  // more is never faster
  EXPECT_EQ(NextRung(flat, 7).rows, 1);
  EXPECT_NEAR(PredictedMs(flat, 7), 7.0, 1e-12);
  // The plan is the least of all sums, tried one by one.
  const std::vector<Rung> mixed = {{1, 1.0}, {2, 1.8}, {4, 3.0}, {8, 6.5}};
  for (int64_t n = 1; n <= 32; ++n) {
    double least = 1e9;
    for (int64_t e = 0; e <= 4; ++e) {
      for (int64_t f = 0; f <= 8; ++f) {
        for (int64_t t = 0; t <= 16; ++t) {
          const int64_t left = std::max<int64_t>(0, n - 8 * e - 4 * f - 2 * t);
          least = std::min(least, 6.5 * static_cast<double>(e) + 3.0 * static_cast<double>(f) +
                                      1.8 * static_cast<double>(t) + static_cast<double>(left));
        }
      }
    }
    EXPECT_NEAR(PredictedMs(mixed, n), least, 1e-9) << n;
  }
}

}  // namespace
}  // namespace moka
