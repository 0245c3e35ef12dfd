// gRPC for moka serve: a module that is loaded when it is asked for, so that the program needs no library of gRPC.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "tools/serve/service_calls.h"

namespace moka {

struct RpcServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0;               // 0: any that is free
  uint64_t message_bytes = 0;      // the most of a request
  int64_t connection_calls = 128;  // at once
  std::string version = {};        // of the server, as metadata say it
  // Files in PEM, which are read again when they change; empty: without TLS.
  std::string certificate = {};
  std::string key = {};
};

// A server of gRPC. Thread-safe; nothing is thrown.
class RpcServer {
 public:
  RpcServer() = default;
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;
  // Breaks off what is unanswered. Requires: no call will answer any more.
  virtual ~RpcServer() = default;

  virtual uint16_t port() const = 0;
  // Tells those who watch the server's health at once where it has changed.
  virtual void LookAtHealth() = 0;
  // From now on calls are refused, then no connection is accepted; streams end behind what they have asked. What is not
  // answered in so long is broken off.
  virtual void StopAccepting(std::chrono::milliseconds most) = 0;
  // Waits until no call is unanswered, at most so long. Returns how many are.
  virtual int64_t WaitForAnswers(std::chrono::milliseconds most) const = 0;
};

// The module's file gives it by its one function, MokaRpcModule.
struct RpcModule {
  int form = 0;         // of these types: kRpcForm
  const char* version;  // Moka's, as it was built
  // Listens at once. Null with the reason in `failed`.
  std::unique_ptr<RpcServer> (*make)(const RpcServerOptions& options, ServiceCalls& calls, std::string& failed);
};

inline constexpr int kRpcForm = 4;
inline constexpr const char* kRpcFile = "libmoka_serve_grpc.so";
inline constexpr const char* kRpcFunction = "MokaRpcModule";
using RpcModuleFunction = const RpcModule* (*)();

// Looks for the module beside the program and in lib/moka of its installation. `calls` outlive the server. Errors:
// kUnavailable for a module that is not there, lacks its libraries or is of another build; kCantCreate for a port that
// is taken.
std::unique_ptr<RpcServer> MakeRpcServer(const RpcServerOptions& options, ServiceCalls& calls);

}  // namespace moka
