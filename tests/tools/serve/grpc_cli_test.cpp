// moka serve --grpc-port as its clients see it: the answers of HTTP, every fault told by its status, and no call lost
// when the server ends.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "core/checksum.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/serve/http_client.h"
#include "tests/tools/serve/server_process.h"
#include "tests/tools/serve/tls_client.h"
#include "tools/serve/grpc/health.grpc.pb.h"
#include "tools/serve/grpc/inference.grpc.pb.h"

namespace moka {
namespace {

using grpc::StatusCode;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using inference::ModelInferRequest;
using inference::ModelInferResponse;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kDigit = 784;  // numbers of a row

class RpcClient {
 public:
  explicit RpcClient(const ServerProcess& server, std::string token = {})
      : channel_(MakeChannel(server.rpc_port())),
        stub_(inference::GRPCInferenceService::NewStub(channel_)),
        health_(grpc::health::v1::Health::NewStub(channel_)),
        token_(std::move(token)) {}

  inference::GRPCInferenceService::Stub& stub() const { return *stub_; }
  grpc::health::v1::Health::Stub& health() const { return *health_; }
  // The context of a call, with the token.
  std::unique_ptr<grpc::ClientContext> Context() const {
    auto context = std::make_unique<grpc::ClientContext>();
    if (!token_.empty()) context->AddMetadata("authorization", StrCat("Bearer ", token_));
    return context;
  }
  // Calls a method of the stub; the answer is left out where it failed.
  template <class Response, class Request>
  grpc::Status Call(grpc::Status (inference::GRPCInferenceService::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                                  Response*),
                    const Request& request, Response* response = nullptr) const {
    Response unwanted;
    return (stub_.get()->*method)(Context().get(), request, response != nullptr ? response : &unwanted);
  }
  grpc::Status Infer(const ModelInferRequest& request, ModelInferResponse* response = nullptr) const {
    return Call(&inference::GRPCInferenceService::Stub::ModelInfer, request, response);
  }
  // Sends a request whose model's name is no UTF-8. Returns the status; `answer`: the bytes of the answer, if any.
  grpc::Status SendBroken(const std::string& method, std::string* answer) const {
    const grpc::Slice slice("\x0a\x02\xff\xff");
    grpc::GenericStub generic(channel_);
    grpc::CompletionQueue queue;
    const auto context = Context();
    const auto call = generic.PrepareCall(context.get(), StrCat("/inference.GRPCInferenceService/", method), &queue);
    void* tag = nullptr;
    bool is_done = false;
    const auto wait = [&] { return queue.Next(&tag, &is_done) && is_done; };
    call->StartCall(nullptr);
    EXPECT_TRUE(wait());
    call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
    EXPECT_TRUE(wait());
    grpc::ByteBuffer bytes;
    call->Read(&bytes, nullptr);
    if (wait()) {
      grpc::Slice read;
      EXPECT_TRUE(bytes.DumpToSingleSlice(&read).ok());
      answer->assign(reinterpret_cast<const char*>(read.begin()), read.size());
    }
    grpc::Status status;
    call->Finish(&status, nullptr);
    EXPECT_TRUE(wait());
    return status;
  }

 private:
  static std::shared_ptr<grpc::Channel> MakeChannel(uint16_t port) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection a client
    return grpc::CreateCustomChannel(StrCat("127.0.0.1:", int64_t{port}), grpc::InsecureChannelCredentials(),
                                     arguments);
  }

  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  std::unique_ptr<grpc::health::v1::Health::Stub> health_;
  std::string token_;
};

using Stub = inference::GRPCInferenceService::Stub;

// Rows of numbers that differ from each other.
std::vector<float> Rows(int64_t rows, float first = 0) {
  std::vector<float> values(static_cast<size_t>(rows * kDigit));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = first + static_cast<float>(i % 97) / 97 + static_cast<float>(i / static_cast<size_t>(kDigit)) * 0.01F;
  return values;
}

std::string_view BytesOf(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

ModelInferRequest RequestOf(int64_t rows, const std::string& model = "digits") {
  ModelInferRequest request;
  request.set_model_name(model);
  auto& input = *request.add_inputs();
  input.set_name("data");
  input.set_datatype("FP32");
  for (const int64_t side : {rows, int64_t{1}, int64_t{28}, int64_t{28}}) input.add_shape(side);
  return request;
}

ModelInferRequest RawRequest(const std::vector<float>& values) {
  ModelInferRequest request = RequestOf(std::ssize(values) / kDigit);
  request.add_raw_input_contents(std::string(BytesOf(values)));
  return request;
}

class GrpcCliTest : public CliTest {
 protected:
  static std::vector<std::string> Words(const std::vector<std::string>& more = {}) {
    Run();
    std::vector<std::string> words = {"runs/lenet-0001", "--name", "digits", "--grpc-port", "0"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // The bytes of the outputs that HTTP answers the same rows with.
  static std::string OverHttp(const ServerProcess& server, const std::vector<float>& values) {
    const int64_t rows = std::ssize(values) / kDigit;
    const std::string json = StrCat(R"({"inputs":[{"name":"data","shape":[)", rows,
                                    R"(,1,28,28],"datatype":"FP32","parameters":{"binary_data_size":)",
                                    BytesOf(values).size(), R"(}}],"parameters":{"binary_data_output":true}})");
    const Reply reply = HttpClient(server.port())
                            .Ask("POST", "/v2/models/digits/infer", StrCat(json, BytesOf(values)),
                                 StrCat("Inference-Header-Content-Length: ", json.size(), "\r\n"));
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.body.substr(std::stoul(reply.Header("Inference-Header-Content-Length")));
  }
  static std::string Picture() {
    static const std::string picture = [] {
      Run();
      EXPECT_EQ(Moka("data export data/test drawn --limit 1").code, 0);
      return ReadFile(ListFiles(folder_ / "drawn", ".png").at(0));
    }();
    return picture;
  }
};

TEST_F(GrpcCliTest, AnswersAreThoseOfHttp) {
  ServerProcess server(folder_, Words());
  const RpcClient client(server);
  for (const int64_t rows : {1, 3, 16, 40}) {
    const std::vector<float> values = Rows(rows);
    ModelInferRequest request = RawRequest(values);
    request.set_id("mine");
    ModelInferResponse response;
    ASSERT_TRUE(client.Infer(request, &response).ok());
    EXPECT_EQ(response.id(), "mine");
    EXPECT_EQ(response.model_name(), "digits");
    EXPECT_EQ(response.model_version(), "1");
    ASSERT_EQ(response.outputs_size(), 1);
    EXPECT_EQ(response.outputs(0).name(), "prob");
    EXPECT_EQ(response.outputs(0).datatype(), "FP32");
    EXPECT_THAT(response.outputs(0).shape(), ElementsAre(rows, 10));
    ASSERT_EQ(response.raw_output_contents_size(), 1);
    EXPECT_EQ(response.raw_output_contents(0), OverHttp(server, values));
    // The same as contents, which are answered by contents.
    ModelInferRequest typed = RequestOf(rows);
    typed.mutable_inputs(0)->mutable_contents()->mutable_fp32_contents()->Add(values.begin(), values.end());
    ModelInferResponse answer;
    ASSERT_TRUE(client.Infer(typed, &answer).ok());
    EXPECT_EQ(answer.raw_output_contents_size(), 0);
    const auto& contents = answer.outputs(0).contents().fp32_contents();
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(contents.data()),
                               static_cast<size_t>(contents.size()) * sizeof(float)),
              response.raw_output_contents(0));
  }
}

TEST_F(GrpcCliTest, PicturesAndClassesGoThrough) {
  ServerProcess server(folder_, Words());
  const RpcClient client(server);
  const Reply over_http =
      HttpClient(server.port())
          .Ask("POST", "/v2/models/digits/infer", Picture(), "Inference-Header-Content-Length: 0\r\n");
  ASSERT_EQ(over_http.status, 200) << over_http.body;
  const std::string expected = over_http.body.substr(std::stoul(over_http.Header("Inference-Header-Content-Length")));
  ModelInferRequest request;
  request.set_model_name("digits");
  auto& input = *request.add_inputs();
  input.set_name("data");
  input.set_datatype("BYTES");
  input.add_shape(1);
  input.mutable_contents()->add_bytes_contents(Picture());
  ModelInferResponse response;
  ASSERT_TRUE(client.Infer(request, &response).ok());
  const auto& contents = response.outputs(0).contents().fp32_contents();
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(contents.data()), 40), expected);

  const auto length = static_cast<uint32_t>(Picture().size());
  input.clear_contents();
  request.add_raw_input_contents(std::string(reinterpret_cast<const char*>(&length), 4) + Picture());
  ASSERT_TRUE(client.Infer(request, &response).ok());
  EXPECT_EQ(response.raw_output_contents(0), expected);

  auto& output = *request.add_outputs();
  output.set_name("prob");
  (*output.mutable_parameters())["classification"].set_int64_param(2);
  ASSERT_TRUE(client.Infer(request, &response).ok());
  EXPECT_EQ(response.outputs(0).datatype(), "BYTES");
  EXPECT_THAT(response.outputs(0).shape(), ElementsAre(1, 2));
  uint32_t first = 0;
  std::memcpy(&first, response.raw_output_contents(0).data(), sizeof(first));
  EXPECT_THAT(response.raw_output_contents(0).substr(4, first), HasSubstr(":"));

  request.set_raw_input_contents(0, request.raw_input_contents(0).substr(0, 40));
  const grpc::Status cut = client.Infer(request);
  EXPECT_EQ(cut.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(cut.error_message(), HasSubstr("of which 36 came"));
}

TEST_F(GrpcCliTest, FactsAreThoseOfHttp) {
  ServerProcess server(folder_, Words());
  const RpcClient client(server);
  HttpClient http(server.port());
  inference::ServerLiveResponse live;
  ASSERT_TRUE(client.Call(&Stub::ServerLive, inference::ServerLiveRequest(), &live).ok());
  EXPECT_TRUE(live.live());
  inference::ServerReadyResponse ready;
  ASSERT_TRUE(client.Call(&Stub::ServerReady, inference::ServerReadyRequest(), &ready).ok());
  EXPECT_TRUE(ready.ready());
  inference::ModelReadyRequest of_model;
  of_model.set_name("digits");
  inference::ModelReadyResponse model_ready;
  ASSERT_TRUE(client.Call(&Stub::ModelReady, of_model, &model_ready).ok());
  EXPECT_TRUE(model_ready.ready());

  const Json told = Json::parse(http.Ask("GET", "/v2").body);
  inference::ServerMetadataResponse metadata;
  ASSERT_TRUE(client.Call(&Stub::ServerMetadata, inference::ServerMetadataRequest(), &metadata).ok());
  EXPECT_EQ(metadata.name(), told["name"]);
  EXPECT_EQ(metadata.version(), told["version"]);
  EXPECT_THAT(metadata.extensions(), testing::Contains("statistics"));

  inference::ModelMetadataRequest asked;
  asked.set_name("digits");
  asked.set_version("1");
  inference::ModelMetadataResponse facts;
  ASSERT_TRUE(client.Call(&Stub::ModelMetadata, asked, &facts).ok());
  EXPECT_THAT(facts.versions(), ElementsAre("1"));
  EXPECT_EQ(facts.platform(), "moka_prototxt");
  EXPECT_EQ(facts.inputs(0).name(), "data");
  EXPECT_THAT(facts.inputs(0).shape(), ElementsAre(-1, 1, 28, 28));
  EXPECT_THAT(facts.outputs(0).shape(), ElementsAre(-1, 10));

  inference::ModelConfigRequest of_config;
  of_config.set_name("digits");
  inference::ModelConfigResponse config;
  ASSERT_TRUE(client.Call(&Stub::ModelConfig, of_config, &config).ok());
  const Json config_json = Json::parse(http.Ask("GET", "/v2/models/digits/config").body);
  EXPECT_EQ(config.config().max_batch_size(), config_json["max_batch_size"]);
  EXPECT_THAT(config.config().input(0).dims(), ElementsAre(1, 28, 28));
  EXPECT_EQ(config.config().output(0).data_type(), inference::TYPE_FP32);
  EXPECT_EQ(std::stod(config.config().parameters().at("batch_1_ms").string_value()),
            config_json["batches"][0]["ms"].get<double>());

  ASSERT_TRUE(client.Infer(RawRequest(Rows(2))).ok());
  inference::ModelStatisticsResponse statistics;
  ASSERT_TRUE(client.Call(&Stub::ModelStatistics, inference::ModelStatisticsRequest(), &statistics).ok());
  ASSERT_EQ(statistics.model_stats_size(), 1);
  EXPECT_EQ(statistics.model_stats(0).inference_count(), 2);
  EXPECT_EQ(statistics.model_stats(0).inference_stats().success().count(), 1);
  EXPECT_GT(statistics.model_stats(0).inference_stats().success().ns(), 0);
  EXPECT_EQ(statistics.model_stats(0).batch_stats(0).batch_size(), 2);
  EXPECT_GT(statistics.model_stats(0).memory_usage(0).byte_size(), 100'000);

  inference::RepositoryIndexResponse index;
  ASSERT_TRUE(client.Call(&Stub::RepositoryIndex, inference::RepositoryIndexRequest(), &index).ok());
  ASSERT_EQ(index.models_size(), 1);
  EXPECT_EQ(index.models(0).name(), "digits");
  EXPECT_EQ(index.models(0).state(), "READY");
}

TEST_F(GrpcCliTest, FaultsHaveTheirStatus) {
  ServerProcess server(folder_, Words({"--most-mb", "1"}));
  const RpcClient client(server);
  const auto expect = [&](const ModelInferRequest& request, StatusCode code, const std::string& text) {
    const grpc::Status status = client.Infer(request);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(text));
  };
  const auto with = [](auto change) {
    ModelInferRequest request = RawRequest(Rows(1));
    change(request);
    return request;
  };
  using Request = ModelInferRequest;
  expect(with([](Request& r) { r.set_model_name("digit"); }), StatusCode::NOT_FOUND, "did you mean \"digits\"?");
  expect(with([](Request& r) { r.set_model_version("3"); }), StatusCode::NOT_FOUND, "it has 1");
  const StatusCode wrong = StatusCode::INVALID_ARGUMENT;
  expect(with([](Request& r) { r.mutable_inputs(0)->set_name("dat"); }), wrong, "it has data");
  expect(with([](Request& r) { r.mutable_inputs(0)->set_shape(1, 2); }), wrong, "3136, and its shape is of 6272");
  expect(with([](Request& r) {
           r.mutable_inputs(0)->set_shape(2, 14);
           r.mutable_inputs(0)->set_shape(3, 56);
         }),
         wrong, "expected [-1,1,28,28]");
  expect(with([](Request& r) { r.mutable_inputs(0)->set_shape(0, -1); }), wrong, "a dimension of -1");
  expect(with([](Request& r) { r.mutable_inputs(0)->set_datatype("INT32"); }), wrong, "takes FP32");
  expect(with([](Request& r) { r.mutable_inputs(0)->set_datatype("FP31"); }), wrong, "there are BOOL");
  expect(with([](Request& r) { r.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1); }), wrong,
         "one of them is to be left out");
  expect(with([](Request& r) { r.add_raw_input_contents("x"); }), wrong, "2 entries for 1 inputs");
  expect(with([](Request& r) { r.clear_raw_input_contents(); }), wrong, "data holds 0 values");
  expect(with([](Request& r) {
           r.clear_raw_input_contents();
           r.mutable_inputs(0)->mutable_contents()->add_fp64_contents(1);
         }),
         wrong, "expected fp32_contents");
  expect(with([](Request& r) { *r.add_inputs() = r.inputs(0); }), wrong, "1 entries for 2 inputs");
  expect(with([](Request& r) {
           *r.add_inputs() = r.inputs(0);
           r.add_raw_input_contents(r.raw_input_contents(0));
         }),
         wrong, "is there twice");
  expect(with([](Request& r) { r.clear_inputs(); }), wrong, "no inputs");
  expect(with([](Request& r) { r.add_outputs()->set_name("probs"); }), wrong, "it has prob");
  expect(with([](Request& r) { (*r.mutable_parameters())["priorit"].set_int64_param(1); }), wrong,
         "did you mean \"priority\"?");
  expect(with([](Request& r) { (*r.mutable_parameters())["priority"].set_uint64_param(17); }), wrong,
         "the lowest is 16");
  expect(with([](Request& r) { (*r.mutable_parameters())["timeout"].set_string_param("1"); }), wrong, "whole number");
  expect(RawRequest(Rows(400)), StatusCode::RESOURCE_EXHAUSTED, "larger than max");
  inference::RepositoryModelLoadRequest load;
  load.set_model_name("digits");
  EXPECT_EQ(client.Call(&Stub::RepositoryModelLoad, load).error_code(), StatusCode::PERMISSION_DENIED);
  std::string answer;
  // Bytes that are no message, which gRPC itself would answer as if there were no such call, or on a stream not at all.
  for (const bool is_stream : {false, true}) {
    const grpc::Status status = client.SendBroken(is_stream ? "ModelStreamInfer" : "ModelInfer", &answer);
    EXPECT_EQ(status.error_code(), is_stream ? StatusCode::OK : wrong);
    EXPECT_THAT(is_stream ? answer : status.error_message(), HasSubstr("the message is no ModelInferRequest"));
  }
  // Bytes that would unfold into the memory of many requests.
  const auto context = client.Context();
  context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
  ModelInferResponse response;
  EXPECT_EQ(client.stub().ModelInfer(context.get(), RawRequest(Rows(1)), &response).error_code(),
            StatusCode::UNIMPLEMENTED);
  ASSERT_TRUE(client.Infer(RawRequest(Rows(1))).ok());  // and it still answers
  EXPECT_EQ(Moka(StrCat("serve runs/lenet-0001 --port 0 --grpc-port ", static_cast<int64_t>(server.rpc_port()))).code,
            73);
}

TEST_F(GrpcCliTest, WithoutTheModuleItSaysWhatIsMissing) {
  Run();
  fs::create_directories(folder_ / "alone/bin");
  fs::copy_file(MOKA_BINARY, folder_ / "alone/bin/moka");
  const auto serve = [&] {
    return RunShell(
        StrCat("cd '", folder_.string(), "' && alone/bin/moka serve runs/lenet-0001 --port 0 --grpc-port 0"), folder_);
  };
  const Outcome missing = serve();
  EXPECT_EQ(missing.code, 69);
  EXPECT_THAT(missing.err, HasSubstr("libgrpc++-dev"));
  fs::create_directories(folder_ / "alone/lib/moka");
  WriteFileAtomically(folder_ / "alone/lib/moka/libmoka_serve_grpc.so", "no library");
  const Outcome broken = serve();
  EXPECT_EQ(broken.code, 69);
  EXPECT_THAT(broken.err, HasSubstr("gRPC cannot be loaded"));
}

TEST_F(GrpcCliTest, TokensSayWhoMayAsk) {
  Run();
  WriteFileAtomically(folder_ / "tokens", StrCat("user:", Sha256("one"), ":user\nboss:", Sha256("two"), ":admin\n"));
  ServerProcess server(folder_, Words({"--token-file", "tokens", "--allow-load"}));
  const auto asked = [&](const std::string& token) {
    return RpcClient(server, token).Infer(RawRequest(Rows(1))).error_code();
  };
  EXPECT_EQ(asked(""), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(asked("three"), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(asked("one"), StatusCode::OK);
  const auto loaded = [&](const std::string& token) {
    inference::RepositoryModelLoadRequest load;
    load.set_model_name("digits");
    return RpcClient(server, token).Call(&Stub::RepositoryModelLoad, load).error_code();
  };
  EXPECT_EQ(loaded(""), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(loaded("one"), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(loaded("two"), StatusCode::OK);
  const RpcClient unknown(server);
  const auto context = unknown.Context();
  const auto stream = unknown.stub().ModelStreamInfer(context.get());
  EXPECT_EQ(stream->Finish().error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(unknown.Call(&Stub::ModelStatistics, inference::ModelStatisticsRequest()).error_code(),
            StatusCode::UNAUTHENTICATED);
  // Health is everyone's.
  EXPECT_TRUE(unknown.Call(&Stub::ServerReady, inference::ServerReadyRequest()).ok());
  HealthCheckResponse health;
  EXPECT_TRUE(unknown.health().Check(unknown.Context().get(), HealthCheckRequest(), &health).ok());
  EXPECT_EQ(health.status(), HealthCheckResponse::SERVING);
}

TEST_F(GrpcCliTest, ModelsAreLoadedAndUnloaded) {
  ServerProcess server(folder_, Words({"--allow-load"}));
  const RpcClient client(server);
  inference::RepositoryModelUnloadRequest unload;
  unload.set_model_name("digits");
  (*unload.mutable_parameters())["unload_dependents"].set_bool_param(false);
  EXPECT_TRUE(client.Call(&Stub::RepositoryModelUnload, unload).ok());
  EXPECT_EQ(client.Infer(RawRequest(Rows(1))).error_code(), StatusCode::UNAVAILABLE);
  inference::ModelReadyRequest of_model;
  of_model.set_name("digits");
  inference::ModelReadyResponse ready;
  EXPECT_TRUE(client.Call(&Stub::ModelReady, of_model, &ready).ok());
  EXPECT_FALSE(ready.ready());
  inference::RepositoryModelLoadRequest load;
  load.set_model_name("digits");
  (*load.mutable_parameters())["config"].set_string_param("{}");
  EXPECT_EQ(client.Call(&Stub::RepositoryModelLoad, load).error_code(), StatusCode::INVALID_ARGUMENT);
  load.clear_parameters();
  load.set_repository_name("other");
  EXPECT_EQ(client.Call(&Stub::RepositoryModelLoad, load).error_code(), StatusCode::NOT_FOUND);
  load.clear_repository_name();
  EXPECT_TRUE(client.Call(&Stub::RepositoryModelLoad, load).ok());
  EXPECT_TRUE(client.Infer(RawRequest(Rows(1))).ok());
  load.set_model_name("digit");
  EXPECT_EQ(client.Call(&Stub::RepositoryModelLoad, load).error_code(), StatusCode::NOT_FOUND);
}

// A hundred requests of which one in ten is wrong: each answer stands where its request did.
TEST_F(GrpcCliTest, StreamsAnswerInOrder) {
  ServerProcess server(folder_, Words());
  const RpcClient client(server);
  const auto context = client.Context();
  const auto stream = client.stub().ModelStreamInfer(context.get());
  constexpr int kRequests = 100;
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) {
      ModelInferRequest request = RawRequest(Rows(1 + i % 5, static_cast<float>(i) * 0.01F));
      request.set_id(StrCat(i));
      if (i % 10 == 3) request.mutable_inputs(0)->set_name("dat");
      EXPECT_TRUE(stream->Write(request));
    }
    EXPECT_TRUE(stream->WritesDone());
  });
  inference::ModelStreamInferResponse response;
  int answers = 0;
  for (; stream->Read(&response); ++answers) {
    EXPECT_EQ(response.infer_response().id(), StrCat(answers));
    if (answers % 10 == 3) {
      EXPECT_THAT(response.error_message(), HasSubstr("it has data"));
      continue;
    }
    EXPECT_EQ(response.error_message(), "");
    EXPECT_EQ(response.infer_response().outputs(0).shape(0), 1 + answers % 5);
    const std::string& raw = response.infer_response().raw_output_contents(0);
    ModelInferResponse alone;
    ASSERT_TRUE(client.Infer(RawRequest(Rows(1 + answers % 5, static_cast<float>(answers) * 0.01F)), &alone).ok());
    std::vector<float> values(raw.size() / sizeof(float));
    std::vector<float> expected(values.size());
    std::memcpy(values.data(), raw.data(), raw.size());
    std::memcpy(expected.data(), alone.raw_output_contents(0).data(), raw.size());
    // Beside others a row may run in another batch.
    EXPECT_THAT(values, testing::Pointwise(testing::FloatNear(1e-6F), expected));
  }
  writer.join();
  EXPECT_EQ(answers, kRequests);
  EXPECT_TRUE(stream->Finish().ok());
}

// While a long request runs, another waits: one that is cancelled, or whose deadline cannot be kept, never runs.
TEST_F(GrpcCliTest, WhatIsCancelledOrTooLateDoesNotRun) {
  ServerProcess server(folder_, Words({"--most-rows", "1", "--most-wait", "3600000"}));
  const RpcClient client(server);
  constexpr int64_t kLong = 10000;
  std::thread blocker([&] { EXPECT_TRUE(RpcClient(server).Infer(RawRequest(Rows(kLong))).ok()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  const auto context = client.Context();
  ModelInferResponse response;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    context->TryCancel();
  });
  EXPECT_EQ(client.stub().ModelInfer(context.get(), RawRequest(Rows(1)), &response).error_code(),
            StatusCode::CANCELLED);
  canceller.join();
  const auto late = client.Context();
  late->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(30));
  EXPECT_THAT(client.stub().ModelInfer(late.get(), RawRequest(Rows(1)), &response).error_code(),
              testing::AnyOf(StatusCode::RESOURCE_EXHAUSTED, StatusCode::DEADLINE_EXCEEDED));
  // A stream that is broken off takes what it asked with it.
  {
    const auto of_stream = client.Context();
    const auto stream = client.stub().ModelStreamInfer(of_stream.get());
    EXPECT_TRUE(stream->Write(RawRequest(Rows(1))));
    EXPECT_TRUE(stream->Write(RawRequest(Rows(1))));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    of_stream->TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), StatusCode::CANCELLED);
  }
  blocker.join();
  ASSERT_TRUE(client.Infer(RawRequest(Rows(1))).ok());
  const std::string metrics = HttpClient(server.port()).Ask("GET", "/metrics").body;
  EXPECT_THAT(metrics, HasSubstr(StrCat("nv_inference_count{model=\"digits\",version=\"1\"} ", kLong + 1, "\n")));
  EXPECT_THAT(metrics, HasSubstr("reason=\"CANCELED\"} 3\n"));
}

TEST_F(GrpcCliTest, WatchesOfHealthAreToldOfChanges) {
  ServerProcess server(folder_, Words({"--grace", "1"}));
  const RpcClient client(server);
  const auto context = client.Context();
  HealthCheckRequest request;
  request.set_service("inference.GRPCInferenceService");
  const auto watch = client.health().Watch(context.get(), request);
  HealthCheckResponse health;
  ASSERT_TRUE(watch->Read(&health));
  EXPECT_EQ(health.status(), HealthCheckResponse::SERVING);
  HealthCheckRequest other;
  other.set_service("other");
  EXPECT_EQ(client.health().Check(client.Context().get(), other, &health).error_code(), StatusCode::NOT_FOUND);
  const auto unknown_context = client.Context();
  const auto unknown = client.health().Watch(unknown_context.get(), other);
  ASSERT_TRUE(unknown->Read(&health));
  EXPECT_EQ(health.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  server.Signal(SIGTERM);
  ASSERT_TRUE(watch->Read(&health));
  EXPECT_EQ(health.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_TRUE(client.Infer(RawRequest(Rows(1))).ok());  // it still answers
  EXPECT_FALSE(watch->Read(&health));
  EXPECT_EQ(watch->Finish().error_code(), StatusCode::UNAVAILABLE);
  EXPECT_FALSE(unknown->Read(&health));
  EXPECT_EQ(unknown->Finish().error_code(), StatusCode::UNAVAILABLE);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));  // nobody is waited for
}

TEST_F(GrpcCliTest, WhatWasAcceptedIsAnsweredWhenItEnds) {
  ServerProcess server(folder_, Words({"--grace", "1"}));
  std::atomic<int> answered = 0;
  std::atomic<int> failed = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      const RpcClient client(server);
      for (const ModelInferRequest request = RawRequest(Rows(4));;) {
        const grpc::Status status = client.Infer(request);
        if (status.ok()) {
          ++answered;
          continue;
        }
        // The server did not take it, which a client may send elsewhere.
        if (status.error_code() != StatusCode::UNAVAILABLE) ++failed;
        EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE) << status.error_message();
        return;
      }
    });
  }
  // A stream that asks all the time is answered so far as it was read, then ended.
  std::thread streamer([&] {
    const RpcClient client(server);
    const auto context = client.Context();
    const auto stream = client.stub().ModelStreamInfer(context.get());
    inference::ModelStreamInferResponse response;
    while (stream->Write(RawRequest(Rows(1))) && stream->Read(&response)) EXPECT_EQ(response.error_message(), "");
    EXPECT_EQ(stream->Finish().error_code(), StatusCode::UNAVAILABLE);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  server.Signal(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  inference::ServerReadyResponse ready;
  EXPECT_TRUE(RpcClient(server).Call(&Stub::ServerReady, inference::ServerReadyRequest(), &ready).ok());
  EXPECT_FALSE(ready.ready());
  EXPECT_EQ(server.Wait(), 0);
  for (std::thread& client : clients) client.join();
  streamer.join();
  EXPECT_GT(answered, 10);
  EXPECT_EQ(failed, 0);
  EXPECT_THAT(server.Log(), HasSubstr("ending: in 1 s no new requests"));
}

TEST_F(GrpcCliTest, WhatTakesTooLongIsBrokenOffWhenItEnds) {
  ServerProcess server(folder_, Words({"--drain", "0.5", "--most-rows", "1", "--most-wait", "3600000"}));
  std::thread slow([&] {
    const grpc::Status status = RpcClient(server).Infer(RawRequest(Rows(20000)));
    EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE) << status.error_message();
    EXPECT_EQ(status.error_message(), "the server is closing");
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  server.Signal(SIGINT);
  EXPECT_EQ(server.Wait(), 75);
  slow.join();
  EXPECT_THAT(server.Log(), HasSubstr("1 request had no answer in time"));
}

// With --tls-cert both protocols speak TLS, and nothing else.
TEST_F(GrpcCliTest, TlsIsSpoken) {
  Run();
  WriteKeys(folder_ / "server.pem", folder_ / "server.key", "moka.test");
  const ServerProcess server(
      folder_, {"runs/lenet-0001", "--grpc-port", "0", "--tls-cert", "server.pem", "--tls-key", "server.key"});
  grpc::SslCredentialsOptions trusted;
  trusted.pem_root_certs = ReadFile(folder_ / "server.pem");
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride("moka.test");
  const auto ask = [&](const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    const auto channel =
        grpc::CreateCustomChannel(StrCat("127.0.0.1:", int64_t{server.rpc_port()}), credentials, arguments);
    const auto stub = inference::GRPCInferenceService::NewStub(channel);
    grpc::ClientContext context;
    inference::ServerLiveResponse response;
    return stub->ServerLive(&context, {}, &response).ok() && response.live();
  };
  EXPECT_TRUE(ask(grpc::SslCredentials(trusted)));
  EXPECT_FALSE(ask(grpc::InsecureChannelCredentials()));
  EXPECT_THAT(AskByTls(server.port(), "/v2/health/ready").text, testing::StartsWith("HTTP/1.1 200"));
}

}  // namespace
}  // namespace moka
