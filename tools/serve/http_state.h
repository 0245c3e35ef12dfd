// The parts of a server that its connections share. For http_server.cpp and http_connection.cpp.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tools/serve/http_options.h"

namespace moka {

class HttpConnection;

struct HttpState {
  using Acceptor = boost::asio::ip::tcp::acceptor;
  using Context = boost::asio::io_context;

  HttpState(HttpServerOptions given, HttpHandler handle)
      : options(std::move(given)),
        handler(std::move(handle)),
        context(std::make_unique<Context>(options.threads)),
        has_work(context->get_executor()),
        acceptor(std::make_unique<Acceptor>(boost::asio::make_strand(*context))),
        pause(std::make_unique<boost::asio::steady_timer>(acceptor->get_executor())) {}

  // One thing less is owed to somebody.
  void Settle() {
    {
      const std::lock_guard lock(mutex);
      --unanswered;
    }
    answered.notify_all();
  }

  HttpServerOptions options;
  HttpHandler handler;
  // These end before the state does: what waits in the context holds connections, which hold the state.
  std::unique_ptr<Context> context;
  // Without it the threads would leave where nothing is accepted any more and the connections wait for the nets alone.
  std::optional<boost::asio::executor_work_guard<Context::executor_type>> has_work;
  std::unique_ptr<Acceptor> acceptor;
  std::unique_ptr<boost::asio::steady_timer> pause;  // of the acceptor, while there are no descriptors left
  bool is_short = false;                             // of them; the acceptor's strand
  std::vector<std::thread> threads;

  mutable std::mutex mutex;
  mutable std::condition_variable answered;
  std::map<HttpConnection*, std::shared_ptr<HttpConnection>> open;
  std::map<std::string, int64_t> peers;    // connections of each address
  std::map<std::string, int64_t> clients;  // requests of each client of a trusted proxy
  HttpCounts counts;
  int64_t unanswered = 0;  // requests, and connections that are to be looked at for one before the server ends
  std::atomic<bool> is_draining = false;
  std::atomic<uint64_t> bodies_bytes = 0;  // of the requests that are not answered yet
  std::atomic<uint64_t> next_id = 0;
  std::string id_prefix;  // of this process, for the requests that bring no name
};

}  // namespace moka
