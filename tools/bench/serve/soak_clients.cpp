// A thread for each client; which of them does what next is drawn by chance, from the seed.
#include "tools/bench/serve/soak_clients.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "core/printable.h"
#include "core/text.h"
#include "core/threads/team.h"
#include "tools/bench/serve/soak_connection.h"

namespace moka {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostFaults = 10;  // that a client keeps
constexpr int kDigits = static_cast<int>(kIdDigits);

// The error of an answer without its numbers.
std::string ErrorOf(const SoakReply& reply) {
  const auto json = nlohmann::json::parse(reply.body, nullptr, false);
  return json.is_object() ? json.value("error", "") : "";
}

}  // namespace

struct SoakClients::Client {
  Client(SoakClients& owner, int64_t number)
      : of(owner),
        plan(owner.plan_),
        next_id(static_cast<uint64_t>(number) * 1'000'000'000),
        random(owner.plan_.seed * 1000 + static_cast<uint64_t>(number)),
        thread([this] {
          LeaveTeamCpus();
          Run();
          --of.left_;
        }) {}

  double Chance() { return std::uniform_real_distribution<double>(0, 1)(random); }
  const SoakRequest& AnyRequest() { return of.requests_.all()[random() % of.requests_.all().size()]; }
  void Count(const std::string& name) { ++counted.counts[name]; }
  void Fault(const std::string& name, const std::string& text) {
    Count(name);
    if (counted.faults.size() < kMostFaults) counted.faults.push_back(StrCat(name, ": ", text));
  }

  void Run() {
    for (;;) {
      const int64_t number = of.begun_++;
      if (of.stops_ || (plan.requests > 0 && number >= plan.requests)) {
        --of.begun_;
        return;
      }
      One();
    }
  }

  void One() {
    double chance = Chance();
    const auto is = [&](double part) {
      const bool is_it = chance >= 0 && chance < part;
      chance -= part;
      return is_it;
    };
    if (is(plan.cancels)) return Leave(false);
    if (is(plan.resets)) return Leave(true);
    if (is(plan.hostile)) return BeHostile();
    if (is(plan.slow)) return SendSlowly();
    if (is(plan.pipelined)) return Pipeline();
    Ask(AnyRequest());
  }

  // The request's bytes under a name of its own.
  std::string Named(const SoakRequest& request, std::string& id) {
    id = fmt::format("{:0{}}", ++next_id, kDigits);
    std::string bytes = request.bytes;
    bytes.replace(request.id_at, kIdDigits, id);
    return bytes;
  }

  // A server that is started again is waited for.
  bool Open() {
    if (connection.is_open() && random() % 200 != 0) return true;
    for (int i = 0; i < 6000; ++i) {
      if (connection.Connect(plan.port)) return true;
      if (plan.ends == ServerEnds::kNot) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    Fault("lost", "nothing listens");
    return false;
  }

  void Leave(bool resets) {
    if (!Open()) return;
    std::string id;
    const std::string bytes = Named(AnyRequest(), id);
    connection.Send(std::string_view(bytes).substr(0, random() % 4 == 0 ? random() % bytes.size() : bytes.size()));
    if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    if (resets) {
      connection.Reset();
    } else {
      connection.Close();
    }
    Count(resets ? "reset" : "cancelled");
  }

  void BeHostile() {
    const HostileRequest& request = of.hostile_[random() % of.hostile_.size()];
    SoakConnection other;
    if (!other.Connect(plan.port)) return Fault("lost", "a hostile client: nothing listens");
    other.Send(request.bytes);
    other.EndSending();
    bool is_begun = false;
    const auto begin = Clock::now();
    for (int answers = 0; answers < 4; ++answers) {
      const SoakReply reply = other.Receive(is_begun);
      if (reply.status == 0) break;
      const bool is_fault = (reply.status >= 500 && reply.status != 503 && reply.status != 505) ||
                            (reply.status < 400 && !request.may_be_right) || reply.Header("x-request-id") == "hidden";
      if (is_fault) {
        Fault("hostile with a wrong status",
              StrCat(request.name, " has ", int64_t{reply.status}, " ", Printable(reply.body.substr(0, 200))));
      }
      Count(StrCat("hostile with ", int64_t{reply.status}));
    }
    if (!is_begun) Count("hostile without an answer");
    if (Clock::now() - begin > std::chrono::seconds(40)) Fault("hostile held", request.name);
    Count("hostile");
  }

  void SendSlowly() {
    if (!Open()) return;
    const SoakRequest& request = AnyRequest();
    std::string id;
    const std::string bytes = Named(request, id);
    const size_t piece = bytes.size() / 8 + 1;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      connection.Send(std::string_view(bytes).substr(at, piece));
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 10));
    }
    bool is_begun = false;
    Take(request, id, connection.Receive(is_begun), 0);
    Count("slow");
  }

  // Several requests at once, answered in order.
  void Pipeline() {
    if (!Open()) return;
    std::vector<std::pair<const SoakRequest*, std::string>> sent(2 + random() % 4);
    std::string bytes;
    for (auto& [request, id] : sent) {
      request = &AnyRequest();
      bytes += Named(*request, id);
    }
    connection.Send(bytes);
    for (size_t i = 0; i < sent.size(); ++i) {
      bool is_begun = false;
      const SoakReply reply = connection.Receive(is_begun);
      Count("pipelined");
      const bool closes = reply.Header("connection") == "close";
      Take(*sent[i].first, sent[i].second, reply, 0);
      if (closes && i + 1 < sent.size()) return Count("pipelined behind the last of a connection");
      if (!connection.is_open()) return;
    }
  }

  // Sends the head, waits to be told that it was taken, and sends the body a moment later.
  bool SendAfterContinue(const SoakRequest& request, const std::string& bytes, SoakReply& reply, bool& is_begun) {
    connection.Send(bytes.substr(0, request.head_bytes - 2) + "Expect: 100-continue\r\n\r\n");
    reply = connection.Receive(is_begun);
    if (reply.status != 100) return false;
    Count("asked after a continue");
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 50));
    connection.Send(std::string_view(bytes).substr(request.head_bytes));
    return true;
  }

  void Ask(const SoakRequest& request) {
    const bool waits = plan.ends == ServerEnds::kDrains && random() % 10 == 0;
    const auto give_up = Clock::now() + std::chrono::seconds(120);
    for (;;) {
      if (!Open()) return;
      std::string id;
      const std::string bytes = Named(request, id);
      const auto begin = Clock::now();
      bool is_begun = false;
      SoakReply reply;
      if (!waits) connection.Send(bytes);
      if (!waits || SendAfterContinue(request, bytes, reply, is_begun)) reply = connection.Receive(is_begun);
      const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
      const bool is_broken = reply.status == 0;
      const bool may_break = plan.ends == ServerEnds::kKilled || (plan.ends == ServerEnds::kDrains && !is_begun);
      // One that starts again listens before its models are there.
      const bool may_refuse =
          plan.ends != ServerEnds::kNot && reply.status == 503 && ErrorOf(reply).ends_with("is not loaded");
      if (Clock::now() > give_up || !(is_broken ? may_break : may_refuse)) return Take(request, id, reply, ms);
      Count(is_broken ? "sent again, broken off" : "sent again, not loaded yet");
      if (is_broken || reply.Header("connection") == "close") connection.Close();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  // Judges an answer.
  void Take(const SoakRequest& request, const std::string& id, const SoakReply& reply, double ms) {
    if (reply.status == 0) {
      connection.Close();
      return Fault("lost", StrCat(request.kind, " to ", request.model, ", ", id));
    }
    if (reply.Header("connection") == "close") {
      connection.Close();
      Count("connections that the server ended");
    }
    if (reply.status == 503 || reply.status == 504) {
      if (reply.status == 503 && reply.Header("retry-after").empty()) Fault("no Retry-After", reply.head);
      if (request.may_be_late) return Count("late");
      return Fault("refused", StrCat(request.kind, " to ", request.model, " has ", int64_t{reply.status}, " ",
                                     Printable(reply.body.substr(0, 200))));
    }
    if (reply.status != 200) {
      return Fault("wrong", StrCat(request.kind, " to ", request.model, " has ", int64_t{reply.status}, " ",
                                   Printable(reply.body.substr(0, 200))));
    }
    double difference = 0;
    const AnswerVerdict verdict = of.requests_.Judge(request, id, reply, difference);
    if (verdict != AnswerVerdict::kRight) {
      return Fault(verdict == AnswerVerdict::kWrong ? "wrong" : "mixed up",
                   StrCat(request.kind, " to ", request.model, ", ", id, ", differs by ", difference));
    }
    Count("right");
    if (request.text.empty() && difference == 0) Count("right, bit by bit");
    ++counted.kinds[StrCat(request.model, " ", request.kind)];
    counted.most_difference = std::max(counted.most_difference, difference);
    if (ms > 0) counted.ms.push_back(static_cast<float>(ms));
  }

  SoakClients& of;
  const ClientPlan& plan;
  uint64_t next_id;
  std::mt19937_64 random;
  ClientCounts counted = {};
  SoakConnection connection = {};
  std::thread thread;
};

SoakClients::SoakClients(const ClientPlan& plan, const SoakRequests& requests)
    : plan_(plan),
      requests_(requests),
      hostile_(HostileRequests(requests.all().front().model, requests.all().front().bytes, plan.seed)),
      left_(plan.clients) {
  for (int64_t i = 0; i < plan.clients; ++i) clients_.push_back(std::make_unique<Client>(*this, i + 1));
}

SoakClients::~SoakClients() {
  Stop();
  for (const auto& client : clients_) {
    if (client->thread.joinable()) client->thread.join();
  }
}

ClientCounts SoakClients::Wait() {
  ClientCounts all;
  for (const auto& client : clients_) {
    client->thread.join();
    for (const auto& [name, count] : client->counted.counts) all.counts[name] += count;
    for (const auto& [name, count] : client->counted.kinds) all.kinds[name] += count;
    all.faults.insert(all.faults.end(), client->counted.faults.begin(), client->counted.faults.end());
    all.ms.insert(all.ms.end(), client->counted.ms.begin(), client->counted.ms.end());
    all.most_difference = std::max(all.most_difference, client->counted.most_difference);
  }
  return all;
}

}  // namespace moka
