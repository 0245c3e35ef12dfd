// Streams, watches and the end of moka serve --grpc-port: answers in order, and no call lost.
#include <gmock/gmock.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/tools/serve/rpc_client.h"
#include "tests/tools/serve/tls_client.h"

namespace moka {
namespace {

using grpc::StatusCode;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using testing::HasSubstr;

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
  server.AwaitRun();
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
  clients.reserve(4);
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
  const ModelInferRequest request = RawRequest(Rows(20000));
  std::thread slow([&] {
    const grpc::Status status = RpcClient(server).Infer(request);
    EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE) << status.error_message();
    EXPECT_EQ(status.error_message(), "the server is closing");
  });
  server.AwaitRun();
  server.Signal(SIGINT);
  EXPECT_EQ(server.Wait(), 75);
  slow.join();
  EXPECT_THAT(server.Log(), HasSubstr("1 request had no answer in time"));
}

// With --tls-cert both protocols speak TLS, and nothing else.
TEST_F(GrpcCliTest, TlsIsSpoken) {
  Run();
  WriteKeys(folder_ / "server.pem", folder_ / "server.key", {.name = "moka.test"});
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
