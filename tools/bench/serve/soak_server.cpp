// The server is this process's child and ends with it, however that ends.
#include "tools/bench/serve/soak_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <regex>
#include <thread>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "tools/serve/client/http_caller.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

bool IsReady(uint16_t port) {
  try {
    HttpCaller caller({.host = "127.0.0.1", .port = StrCat(int64_t{port}), .path = "/"});
    return caller.Call("GET", "/v2/health/ready", "").status == 200;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

SoakServer::SoakServer(std::string moka, std::vector<std::string> words, fs::path log)
    : moka_(std::move(moka)), words_(std::move(words)), log_(std::move(log)) {}

SoakServer::~SoakServer() {
  if (process_ <= 0) return;
  Signal(SIGKILL);
  Wait();
}

void SoakServer::Start() {
  std::vector<std::string> words = {moka_, "serve"};
  words.insert(words.end(), words_.begin(), words_.end());
  words.insert(words.end(), {"--port", StrCat(int64_t{port_})});
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  fs::remove(log_);
  process_ = fork();
  if (process_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // it outlives no test
    const int log = open(log_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    dup2(log, STDERR_FILENO);
    execv(moka_.c_str(), arguments.data());
    _exit(127);
  }
  if (process_ < 0) throw Error(ErrorKind::kUnavailable, "the system starts no more processes");
  static const std::regex listening("listening at http://127.0.0.1:([0-9]+)");
  for (int i = 0; i < 12000; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::string log = fs::exists(log_) ? ReadFile(log_) : "";
    std::smatch found;
    if (port_ == 0 && std::regex_search(log, found, listening)) port_ = static_cast<uint16_t>(std::stoi(found[1]));
    if (port_ != 0 && IsReady(port_)) return;
    int status = 0;
    if (waitpid(process_, &status, WNOHANG) == 0) continue;
    process_ = -1;
    break;
  }
  const std::string log = ReadFile(log_);
  throw Error(ErrorKind::kPeer, StrCat("the server is not ready: ",
                                       Printable(log.substr(log.size() - std::min<size_t>(log.size(), 500)))));
}

void SoakServer::Signal(int signal) const { kill(process_, signal); }

int SoakServer::Wait() {
  int status = 0;
  waitpid(process_, &status, 0);
  process_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

ServerFacts SoakServer::Facts() const {
  ServerFacts facts;
  const std::string folder = StrCat("/proc/", int64_t{process_});
  std::ifstream status(folder + "/status");
  for (std::string line; std::getline(status, line);) {
    const auto value = [&] { return std::strtoll(line.c_str() + line.find(':') + 1, nullptr, 10); };
    if (line.starts_with("VmRSS:")) facts.resident_mib = static_cast<double>(value()) / 1024;
    if (line.starts_with("Threads:")) facts.threads = value();
  }
  std::error_code failed;
  fs::directory_iterator files(folder + "/fd", failed);
  if (!failed) facts.open_files = std::distance(begin(files), end(files));
  return facts;
}

}  // namespace moka
