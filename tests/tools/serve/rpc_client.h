// A client of moka serve --grpc-port, and requests for it.
#pragma once

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/tools/cli_fixture.h"
#include "tests/tools/serve/http_client.h"
#include "tests/tools/serve/server_process.h"
#include "tools/serve/grpc/health.grpc.pb.h"
#include "tools/serve/grpc/inference.grpc.pb.h"

namespace moka {

using inference::ModelInferRequest;
using inference::ModelInferResponse;

inline constexpr int64_t kDigit = 784;  // numbers of a row

// Calls of one connection, with a token where one is given.
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
  // Calls a method, as "SERVICE/METHOD", with these bytes. Returns the status; `answer`: the bytes of the answer, if
  // any.
  grpc::Status SendBytes(const std::string& method, const std::string& request, std::string* answer) const {
    const grpc::Slice slice(request);
    grpc::GenericStub generic(channel_);
    grpc::CompletionQueue queue;
    const auto context = Context();
    const auto call = generic.PrepareCall(context.get(), StrCat("/", method), &queue);
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
inline std::vector<float> Rows(int64_t rows, float first = 0) {
  std::vector<float> values(static_cast<size_t>(rows * kDigit));
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t row = i / static_cast<size_t>(kDigit);
    values[i] = first + static_cast<float>(i % 97) / 97 + static_cast<float>(row) * 0.01F;
  }
  return values;
}

inline std::string_view BytesOf(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

inline ModelInferRequest RequestOf(int64_t rows, const std::string& model = "digits") {
  ModelInferRequest request;
  request.set_model_name(model);
  auto& input = *request.add_inputs();
  input.set_name("data");
  input.set_datatype("FP32");
  for (const int64_t side : {rows, int64_t{1}, int64_t{28}, int64_t{28}}) input.add_shape(side);
  return request;
}

inline ModelInferRequest RawRequest(const std::vector<float>& values) {
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

}  // namespace moka
