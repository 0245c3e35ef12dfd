// moka serve --grpc-port as its clients see it: the answers of HTTP, and every fault told by its status.
#include <gmock/gmock.h>

#include <cstring>
#include <vector>

#include "core/checksum.h"
#include "tests/tools/serve/rpc_client.h"

namespace moka {
namespace {

using grpc::StatusCode;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using testing::ElementsAre;
using testing::HasSubstr;

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
  uint64_t rows = 0;  // as one batch of two, or one by one where that is no slower
  for (const auto& batch : statistics.model_stats(0).batch_stats())
    rows += batch.batch_size() * batch.compute_infer().count();
  EXPECT_EQ(rows, 2U);
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

// gRPC itself answers bytes that are no message as if there were no such call, or on a stream not at all, and reads
// two bytes into an object of a hundred.
TEST_F(GrpcCliTest, NoCallReadsWhatItDoesNotCount) {
  Run();
  ServerProcess server(
      folder_, std::vector<std::string>{"runs/lenet-0001", "--grpc-port", "0", "--allow-load", "--shared-memory"});
  const RpcClient client(server);
  const std::string broken = "\x0a\x02\xff";
  std::string unknown;  // a field 100 that the protocol does not have, 150,000 times
  for (int i = 0; i < 150'000; ++i) unknown += std::string("\xa0\x06\x00", 3);
  int methods = 0;
  for (const auto* service : {inference::ServerLiveRequest::descriptor()->file()->service(0),
                              grpc::health::v1::HealthCheckRequest::descriptor()->file()->service(0)}) {
    for (int i = 0; i < service->method_count(); ++i) {
      const google::protobuf::MethodDescriptor& method = *service->method(i);
      const std::string& request = method.input_type()->name();
      if (request == "ServerLiveRequest" || request == "ServerReadyRequest") continue;  // they hold nothing
      SCOPED_TRACE(method.full_name());
      ++methods;
      const std::string path = StrCat(service->full_name(), "/", method.name());
      const bool is_answered = method.client_streaming();
      for (const auto& [bytes, why] : {std::pair(broken, StrCat("the message is no ", request)),
                                       std::pair(unknown, std::string("more than 131072 texts and messages"))}) {
        std::string answer;
        const grpc::Status status = client.SendBytes(path, bytes, &answer);
        EXPECT_EQ(status.error_code(), is_answered ? StatusCode::OK : StatusCode::INVALID_ARGUMENT);
        EXPECT_THAT(is_answered ? answer : status.error_message(), HasSubstr(why));
      }
    }
  }
  EXPECT_GE(methods, 14);
  std::string inputs;  // 16 million of them
  for (int i = 0; i < (16 << 20); ++i) inputs += std::string("\x2a\x00", 2);
  const int64_t before_kib = server.PeakKib();
  EXPECT_GT(before_kib, 0);
  std::string answer;
  const grpc::Status status = client.SendBytes("inference.GRPCInferenceService/ModelInfer", inputs, &answer);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << status.error_message() << server.Log();
  EXPECT_LT(server.PeakKib() - before_kib, 200 << 10);
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

}  // namespace
}  // namespace moka
