// The server of gRPC and the one function by which the program finds it.
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <thread>

#include "core/text.h"
#include "tools/serve/grpc/health_service.h"
#include "tools/serve/grpc/inference_service.h"
#include "tools/serve/grpc/open_calls.h"
#include "tools/serve/rpc_module.h"

namespace moka {
namespace {

constexpr std::chrono::milliseconds kHealthLook{100};  // how late a watch may learn of a load
// gRPC cancels calls that come in the instant in which it begins to close, before clients know: CANCELLED is no status
// that they would call elsewhere for. So they are refused as UNAVAILABLE first, until none has come for a while.
constexpr std::chrono::milliseconds kQuiet{200};
constexpr std::chrono::milliseconds kMostQuiet{2000};
constexpr unsigned kSecondsBetweenLooks = 1;           // at the files of TLS
constexpr uint64_t kLeastQuota = uint64_t{512} << 20;  // bytes

std::string AddressOf(const RpcServerOptions& options) {
  const bool is_six = options.host.find(':') != std::string::npos;
  return StrCat(is_six ? StrCat("[", options.host, "]") : options.host, ":", int64_t{options.port});
}

// Calls that came and connections that are made are bounded, before anything of Moka's sees them.
void SetLimits(const RpcServerOptions& options, grpc::ServerBuilder& builder) {
  constexpr uint64_t kMostMessage = std::numeric_limits<int>::max();
  builder.SetMaxReceiveMessageSize(static_cast<int>(std::min(options.message_bytes, kMostMessage)));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(options.connection_calls));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 16 << 10);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 75'000);  // a client that is gone without a word
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a port that is taken is an error
  // A few bytes could become the memory of many requests.
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP})
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  grpc::ResourceQuota quota("moka");
  quota.Resize(static_cast<size_t>(std::max(8 * options.message_bytes, kLeastQuota)));
  builder.SetResourceQuota(quota);
}

std::shared_ptr<grpc::ServerCredentials> CredentialsOf(const RpcServerOptions& options) {
  if (options.certificate.empty()) return grpc::InsecureServerCredentials();
  namespace tls = grpc::experimental;
  const auto files =
      std::make_shared<tls::FileWatcherCertificateProvider>(options.key, options.certificate, kSecondsBetweenLooks);
  tls::TlsServerCredentialsOptions credentials(files);
  credentials.watch_identity_key_cert_pairs();
  credentials.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  return tls::TlsServerCredentials(credentials);
}

class GrpcServer final : public RpcServer {
 public:
  GrpcServer(const RpcServerOptions& options, ServiceCalls& calls)
      : inference_(calls, open_, options.version), health_(calls, open_) {
    grpc::ServerBuilder builder;
    SetLimits(options, builder);
    builder.AddListeningPort(AddressOf(options), CredentialsOf(options), &port_);
    builder.RegisterService(&inference_);
    builder.RegisterService(&health_);
    server_ = builder.BuildAndStart();
    if (is_listening()) looker_ = std::thread([this] { LookWhileOpen(); });
  }
  ~GrpcServer() override {
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
    }
    closed_.notify_all();
    if (looker_.joinable()) looker_.join();
    if (!ender_.joinable() && server_) StopAccepting(std::chrono::milliseconds(0));
    if (ender_.joinable()) ender_.join();
  }

  bool is_listening() const { return server_ != nullptr && port_ != 0; }
  uint16_t port() const override { return static_cast<uint16_t>(port_); }
  void LookAtHealth() override { open_->LookAtHealth(); }
  void StopAccepting(std::chrono::milliseconds most) override {
    open_->Close();
    const auto deadline = std::chrono::system_clock::now() + most;
    ender_ = std::thread([this, deadline, most] {
      open_->WaitForQuiet(kQuiet, std::min(kMostQuiet, most));
      server_->Shutdown(deadline);
    });
  }
  int64_t WaitForAnswers(std::chrono::milliseconds most) const override { return open_->WaitForAnswers(most); }

 private:
  // A load, which the repository does by itself, changes what a watch tells.
  void LookWhileOpen() {
    std::unique_lock lock(mutex_);
    while (!closed_.wait_for(lock, kHealthLook, [&] { return is_closed_; })) {
      lock.unlock();
      open_->LookAtHealth();
      lock.lock();
    }
  }

  std::shared_ptr<OpenCalls> open_ = std::make_shared<OpenCalls>();
  InferenceService inference_;
  HealthService health_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::thread ender_;
  std::mutex mutex_;
  std::condition_variable closed_;
  bool is_closed_ = false;
  std::thread looker_;
};

std::unique_ptr<RpcServer> MakeGrpcServer(const RpcServerOptions& options, ServiceCalls& calls, std::string& failed) {
  // Moka says what is wrong; what the libraries tell of each broken message is for those who ask for it.
  if (std::getenv("GRPC_VERBOSITY") == nullptr) {
    gpr_set_log_function([](gpr_log_func_args*) {});
    google::protobuf::SetLogHandler(nullptr);
  }
  try {
    auto server = std::make_unique<GrpcServer>(options, calls);
    if (server->is_listening()) return server;
    failed = StrCat("gRPC cannot listen at ", AddressOf(options), ": the port is taken, or the address no machine's");
  } catch (const std::exception& error) {
    failed = StrCat("gRPC cannot be served: ", error.what());
  }
  return nullptr;
}

}  // namespace
}  // namespace moka

extern "C" __attribute__((visibility("default"))) const moka::RpcModule* MokaRpcModule() {
  static const moka::RpcModule module = {moka::kRpcForm, MOKA_VERSION, moka::MakeGrpcServer};
  return &module;
}
