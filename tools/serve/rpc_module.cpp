// The module stays loaded: its threads may outlive the server by an instant.
#include "tools/serve/rpc_module.h"

#include <dlfcn.h>

#include <filesystem>
#include <thread>

#include "core/error.h"
#include "core/text.h"
#include "core/threads/team.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

fs::path ModuleFile() {
  std::error_code failed;
  const fs::path here = fs::read_symlink("/proc/self/exe", failed).parent_path();
  const fs::path installed = here.parent_path() / "lib" / "moka";
  for (const fs::path& folder : {here, installed}) {
    if (fs::exists(folder / kRpcFile, failed)) return folder / kRpcFile;
  }
  throw Error(ErrorKind::kUnavailable, {},
              StrCat("this moka was built without gRPC: there is no ", kRpcFile, " in ", Printable(here.string()),
                     " or ", Printable(installed.string())),
              "it is built where Debian's packages libgrpc++-dev and protobuf-compiler-grpc are installed "
              "(docs/serving.md)");
}

const RpcModule& LoadedModule() {
  const fs::path file = ModuleFile();
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    throw Error(ErrorKind::kUnavailable, {},
                StrCat("gRPC cannot be loaded: ", reason != nullptr ? Printable(reason) : kRpcFile),
                "Debian's package libgrpc++1.51 brings its library (libgrpc++1.51t64 on Debian 13)");
  }
  const auto function = reinterpret_cast<RpcModuleFunction>(dlsym(handle, kRpcFunction));
  const RpcModule* module = function != nullptr ? function() : nullptr;
  if (module == nullptr || module->form != kRpcForm || std::string_view(module->version) != MOKA_VERSION) {
    throw Error(ErrorKind::kUnavailable, {},
                StrCat(Printable(file.string()), " is of another build than this moka ", MOKA_VERSION),
                "install both from one build");
  }
  return *module;
}

}  // namespace

std::unique_ptr<RpcServer> MakeRpcServer(const RpcServerOptions& options, ServiceCalls& calls) {
  const RpcModule& module = LoadedModule();
  std::unique_ptr<RpcServer> server;
  std::string failed;
  // gRPC's threads run where the one does that made the server: beside the net's team.
  std::thread([&] {
    LeaveTeamCpus();
    server = module.make(options, calls, failed);
  }).join();
  if (!server) throw Error(ErrorKind::kCantCreate, failed);
  return server;
}

}  // namespace moka
