// moka serve as a process of a test, and what tests ask it.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "core/file.h"
#include "core/text.h"
#include "tests/tools/serve/http_client.h"

namespace moka {

namespace fs = std::filesystem;

// A port of this machine that nobody listened at a moment ago.
inline uint16_t FreePort() {
  const int one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(one, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  socklen_t size = sizeof(address);
  getsockname(one, reinterpret_cast<sockaddr*>(&address), &size);
  close(one);
  return ntohs(address.sin_port);
}

// A server of this test, from its first answer that it is ready to its end.
class ServerProcess {
 public:
  // `port` 0: any that is free.
  ServerProcess(const fs::path& folder, const std::vector<std::string>& words, uint16_t port = 0,
                const char* threads = "1")
      : log_(folder / "serve.log") {
    fs::remove(log_);
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that breaks off leaves no server that its caller waits for
      std::vector<std::string> all = {MOKA_BINARY, "serve"};
      all.insert(all.end(), words.begin(), words.end());
      all.insert(all.end(), {"--port", std::to_string(port)});
      std::vector<char*> arguments;
      arguments.reserve(all.size() + 1);
      for (std::string& word : all) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      if (chdir(folder.c_str()) != 0 || freopen(log_.c_str(), "w", stderr) == nullptr) _exit(1);
      setenv("OMP_NUM_THREADS", threads, 1);
      execv(MOKA_BINARY, arguments.data());
      _exit(1);
    }
    for (int i = 0; i < 3000; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      std::smatch found;
      const std::string log = fs::exists(log_) ? ReadFile(log_) : "";
      if (!std::regex_search(log, found, std::regex("listening at https?://127.0.0.1:([0-9]+)"))) {
        if (waitpid(process_, nullptr, WNOHANG) != 0) break;
        continue;
      }
      port_ = static_cast<uint16_t>(std::stoi(found[1]));
      if (std::regex_search(log, found, std::regex("gRPC at 127.0.0.1:([0-9]+)")))
        rpc_port_ = static_cast<uint16_t>(std::stoi(found[1]));
      const bool has_tls = log.find("listening at https") != std::string::npos;
      if (has_tls && log.find("\ntry: ") != std::string::npos) return;
      if (!has_tls && HttpClient(port_).Ask("GET", "/v2/health/ready").status == 200) return;
    }
    ADD_FAILURE() << "the server is not ready: " << ReadFile(log_);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess() {
    if (process_ > 0) kill(process_, SIGKILL);
    if (process_ > 0) waitpid(process_, nullptr, 0);
  }

  uint16_t port() const { return port_; }
  uint16_t rpc_port() const { return rpc_port_; }  // 0: none
  void Signal(int signal) const { kill(process_, signal); }
  // The exit code.
  int Wait() {
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string Log() const { return ReadFile(log_); }
  // Returns when a net has run, by which a request that takes long is on its way.
  void AwaitRun() const {
    HttpClient client(port_);
    for (int i = 0; i < 6000; ++i) {
      const std::string stats = client.Ask("GET", "/v2/models/stats").body;
      if (std::regex_search(stats, std::regex("\"execution_count\":[1-9]"))) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "no net has run in a minute";
  }
  // The most memory that it has had, in KiB; 0: the kernel does not say.
  int64_t PeakKib() const {
    std::ifstream status(StrCat("/proc/", int64_t{process_}, "/status"));
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6));
    return 0;
  }

 private:
  fs::path log_;
  pid_t process_ = -1;
  uint16_t port_ = 0;
  uint16_t rpc_port_ = 0;
};

}  // namespace moka
