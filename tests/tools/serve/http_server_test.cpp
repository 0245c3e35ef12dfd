// The server of HTTP apart from nets: its limits, its names of requests, its log and TLS.
#include "tools/serve/http_server.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "tests/tools/serve/http_client.h"
#include "tests/tools/serve/tls_client.h"
#include "tools/serve/proxies.h"
#include "tools/serve/request_log.h"
#include "tools/serve/tls_keys.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

// Answers with the body's length.
void AnswerLength(const HttpRequest& request, const HttpRespond& respond) {
  if (request.path == "/fault") return respond.Later([]() -> HttpAnswer { throw std::bad_alloc(); });
  if (request.path == "/wrong") return respond(HttpErrorAnswer(400, "it is wrong"));
  respond({.body = StrCat(request.body.size())});
}

HttpServerOptions AnyPort() {
  HttpServerOptions options;
  options.port = 0;
  return options;
}

class HttpServerTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_ = fs::temp_directory_path() / StrCat("moka_http_server_", static_cast<int64_t>(getpid()));
};

TEST_F(HttpServerTest, WhoMayNotAskIsToldBeforeTheBody) {
  HttpServerOptions options = AnyPort();
  options.gate = [](const HttpRequest& head) -> std::optional<HttpAnswer> {
    if (head.Header("authorization") == "yes") return std::nullopt;
    return HttpErrorAnswer(401, "no");
  };
  HttpServer server(options, AnswerLength);
  const std::string head = "POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 50000000\r\nExpect: 100-continue\r\n";
  HttpClient stranger(server.port());
  stranger.Send(StrCat(head, "\r\n"));
  const Reply refused = stranger.Receive();
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.Header("Connection"), "close");
  HttpClient friendly(server.port());
  friendly.Send(StrCat(head, "Authorization: yes\r\n\r\n"));
  EXPECT_EQ(friendly.Receive().status, 100);
  friendly.Send(std::string(50'000'000, 'a'));
  EXPECT_EQ(friendly.Receive().body, "50000000");
}

TEST_F(HttpServerTest, BodiesTogetherAreBounded) {
  HttpServerOptions options = AnyPort();
  options.limits.body_bytes = 1 << 20;
  options.limits.bodies_bytes = 3 << 20;
  HttpServer server(options, AnswerLength);
  const std::string most(900'000, 'a');
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 3; ++i) {  // all but a few bytes of theirs
    clients.push_back(std::make_unique<HttpClient>(server.port()));
    clients.back()->Send("POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 900005\r\n\r\n");
    clients.back()->Send(most);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const Reply refused = HttpClient(server.port()).Ask("POST", "/", most);
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.Header("Retry-After"), "1");
  EXPECT_EQ(HttpClient(server.port()).Ask("POST", "/", "four").body, "4");
  clients[0]->Send("abcde");
  EXPECT_EQ(clients[0]->Receive().body, "900005");
  clients[1].reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(HttpClient(server.port()).Ask("POST", "/", most).body, "900000");
}

TEST_F(HttpServerTest, TooManyConnectionsAreToldSo) {
  HttpServerOptions options = AnyPort();
  options.limits.connections = 3;
  options.limits.peer_connections = 2;
  options.limits.are_own_exempt = false;
  options.limits.told = 1;
  HttpServer server(options, AnswerLength);
  HttpClient first(server.port());
  EXPECT_EQ(first.Ask("GET", "/").status, 200);
  HttpClient second(server.port());
  EXPECT_EQ(second.Ask("GET", "/").status, 200);
  HttpClient third(server.port());
  const Reply told = third.Receive();
  EXPECT_EQ(told.status, 429);
  EXPECT_EQ(told.Header("Retry-After"), "1");
  HttpClient fourth(server.port());
  EXPECT_EQ(fourth.Receive().status, 0);  // closed without a word: the third is still told
  EXPECT_EQ(first.Ask("GET", "/").status, 200);
  EXPECT_EQ(server.counts().refused_connections, 2);
}

TEST_F(HttpServerTest, RequestsHaveNames) {
  HttpServer server(AnyPort(), AnswerLength);
  HttpClient client(server.port());
  const Reply named = client.Ask("GET", "/wrong", "", "X-Request-Id: a\"bc\r\ntraceparent: 00-ab-cd-01\r\n");
  EXPECT_EQ(named.Header("X-Request-Id"), "a\"bc");
  EXPECT_EQ(named.Header("traceparent"), "00-ab-cd-01");
  EXPECT_EQ(Json::parse(named.body)["request_id"], "a\"bc");
  for (const std::string& unsafe : {std::string("a\xff"
                                                "b"),
                                    std::string("a b"), std::string(129, 'x')}) {
    const Reply own =
        client.Ask("GET", "/wrong", "", StrCat("X-Request-Id: ", unsafe, "\r\ntraceparent: ", unsafe, "\r\n"));
    const std::string id(own.Header("X-Request-Id"));
    EXPECT_FALSE(id.empty());
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef-"), std::string::npos) << id << " for " << unsafe;
    EXPECT_EQ(own.Header("traceparent"), "") << unsafe;
  }
  const Reply first = client.Ask("GET", "/");
  const Reply second = client.Ask("GET", "/fault");
  EXPECT_FALSE(first.Header("X-Request-Id").empty());
  EXPECT_NE(first.Header("X-Request-Id"), second.Header("X-Request-Id"));
  EXPECT_EQ(second.status, 500);
  EXPECT_EQ(Json::parse(second.body)["request_id"], second.Header("X-Request-Id"));
}

TEST_F(HttpServerTest, WhatStandsBehindTheAddressIsRefused) {
  HttpServer server(AnyPort(), [](const HttpRequest& request, const HttpRespond& respond) {
    respond({.body = "\"" + request.path + "\""});
  });
  const Reply refused = HttpClient(server.port()).Ask("GET", "/v2?top=1&top=2");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(Json::parse(refused.body)["error"].get<std::string>(), HasSubstr("found \"?top=1&top=2\""));
  EXPECT_EQ(HttpClient(server.port()).Ask("GET", "/v2?").body, "\"/v2\"");
}

TEST_F(HttpServerTest, EachRequestIsALineOfTheLog) {
  const fs::path file = folder_ / "requests.jsonl";
  RequestLog log(file);
  HttpServerOptions options = AnyPort();
  options.log = [&](const LoggedRequest& request) { log.Write(request); };
  const auto lines = [&](const fs::path& of) {
    std::vector<Json> read;
    for (const std::string& line : Split(ReadFile(of), '\n')) {
      if (!line.empty()) read.push_back(Json::parse(line));
    }
    return read;
  };
  {
    HttpServer server(options, [](const HttpRequest& request, const HttpRespond& respond) {
      HttpAnswer answer{.body = StrCat(request.body.size())};
      answer.facts = {.user = "me", .model = "m", .version = "2", .times = {.rows = 3, .queue_ms = 1, .run_ms = 2}};
      respond(std::move(answer));
    });
    HttpClient client(server.port());
    client.Ask("POST", "/here?", "four", "X-Request-Id: one\r\n");
    client.Send("nonsense\r\n\r\n");
    client.Receive();
    // Moved away, the log begins anew at its name.
    fs::rename(file, folder_ / "old.jsonl");
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    HttpClient(server.port()).Ask("GET", "/there");
    EXPECT_EQ(server.WaitForAnswers(std::chrono::seconds(5)), 0);  // a line is written behind its answer
  }
  const std::vector<Json> old = lines(folder_ / "old.jsonl");
  ASSERT_EQ(old.size(), 2U);
  EXPECT_EQ(old[0]["request_id"], "one");
  EXPECT_EQ(old[0]["peer"], "127.0.0.1");
  EXPECT_EQ(old[0]["method"], "POST");
  EXPECT_EQ(old[0]["path"], "/here");
  EXPECT_EQ(old[0]["status"], 200);
  EXPECT_EQ(old[0]["bytes_in"], 4);
  EXPECT_EQ(old[0]["user"], "me");
  EXPECT_EQ(old[0]["model"], "m");
  EXPECT_EQ(old[0]["rows"], 3);
  EXPECT_TRUE(std::regex_match(old[0]["time"].get<std::string>(), std::regex("20..-..-..T..:..:..\\....Z")));
  EXPECT_EQ(old[1]["status"], 400);
  const std::vector<Json> now = lines(file);
  ASSERT_EQ(now.size(), 1U);
  EXPECT_EQ(now[0]["path"], "/there");
  EXPECT_THROW(RequestLog(folder_ / "no/such/folder"), Error);
}

TEST(TrustedProxiesTest, TheLastAddressThatIsNoProxysIsTheClients) {
  const TrustedProxies proxies({"10.0.0.0/9", " 192.0.2.7", "fd00:1::/33", "::1"});
  const auto client = [&](const std::string& peer, const std::string& forwarded) {
    return proxies.ClientOf(peer, forwarded);
  };
  // Nothing is believed of others.
  EXPECT_EQ(client("203.0.113.1", "198.51.100.1"), "203.0.113.1");
  EXPECT_EQ(client("10.128.0.0", "198.51.100.1"), "10.128.0.0");
  EXPECT_EQ(client("192.0.2.8", "198.51.100.1"), "192.0.2.8");
  EXPECT_EQ(client("fd00:1:8000::", "198.51.100.1"), "fd00:1:8000::");
  EXPECT_EQ(client("?", "198.51.100.1"), "?");
  EXPECT_EQ(TrustedProxies().ClientOf("::1", "198.51.100.1"), "::1");
  // Who writes the header itself is found behind what it wrote.
  EXPECT_EQ(client("10.127.255.255", "198.51.100.1"), "198.51.100.1");
  EXPECT_EQ(client("10.0.0.1", "127.0.0.1, 10.0.0.3,198.51.100.1 ,10.0.0.2"), "198.51.100.1");
  EXPECT_EQ(client("fd00:1:7fff::", "::1, fd00:1::2"), "::1");
  EXPECT_EQ(client("::ffff:10.0.0.1", "::ffff:198.51.100.1"), "198.51.100.1");
  EXPECT_EQ(client("192.0.2.7", "198.51.100.1:4711"), "198.51.100.1");
  EXPECT_EQ(client("192.0.2.7", "[2001:db8::1]:4711"), "2001:db8::1");
  EXPECT_EQ(client("192.0.2.7", "2001:DB8:0::1"), "2001:db8::1");
  // The search ends at what is no address.
  EXPECT_EQ(client("10.0.0.1", ""), "10.0.0.1");
  EXPECT_EQ(client("10.0.0.1", "198.51.100.1, unknown"), "10.0.0.1");
  EXPECT_EQ(client("10.0.0.1", "198.51.100.1,,10.0.0.2"), "10.0.0.2");
  EXPECT_EQ(client("10.0.0.1", "198.51.100.1, 300.1.1.1"), "10.0.0.1");
  EXPECT_EQ(client("10.0.0.1", "198.51.100.1, ["), "10.0.0.1");
  const TrustedProxies all({"0.0.0.0/0"});
  EXPECT_TRUE(all.Trusts("203.0.113.1"));
  EXPECT_FALSE(all.Trusts("2001:db8::1"));
}

TEST(TrustedProxiesTest, NetworksThatAreNoneAreRefused) {
  const auto fault = [](const std::string& text) -> std::string {
    try {
      (void)TrustedProxies({"::1", text});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig);
      return error.what();
    }
    return "no fault";
  };
  EXPECT_EQ(fault("10.0.0.0/8"), "no fault");
  EXPECT_THAT(fault(""), HasSubstr("is no network; expected an address, or a network like 10.0.0.0/8"));
  EXPECT_THAT(fault("proxy.test"), HasSubstr("proxy.test is no network"));
  EXPECT_THAT(fault("10.0.0"), HasSubstr("10.0.0 is no network"));
  EXPECT_THAT(fault("10.0.0.0/33"), HasSubstr("expected 0 to 32 behind its"));
  EXPECT_THAT(fault("fd00::/129"), HasSubstr("expected 0 to 128 behind its"));
  for (const char* bits : {"", "-1", "x", "8x", "99999999999", " 8"})
    EXPECT_THAT(fault(StrCat("10.0.0.0/", bits)), HasSubstr("expected 0 to 32 behind its")) << bits;
  EXPECT_THAT(fault("10.1.2.3/8"), HasSubstr("expected 10.0.0.0/8, or the address alone"));
  EXPECT_THAT(fault("fd00::1/64"), HasSubstr("expected fd00::/64"));
}

// Behind a proxy each client has its own limit, and its own address in the log; who is no proxy names nobody else.
TEST_F(HttpServerTest, ClientsOfATrustedProxyAreToldApart) {
  HttpServerOptions options = AnyPort();
  options.limits.are_own_exempt = false;
  options.limits.peer_connections = 2;
  options.proxies = TrustedProxies({"127.0.0.0/8"});
  std::mutex mutex;
  std::vector<LoggedRequest> logged;
  options.log = [&](const LoggedRequest& request) {
    const std::lock_guard lock(mutex);
    logged.push_back(request);
  };
  std::vector<HttpRespond> held;
  std::atomic<size_t> holding = 0;
  HttpServer server(options, [&](const HttpRequest& request, const HttpRespond& respond) {
    if (request.path != "/held") return respond({.body = request.peer});
    const std::lock_guard lock(mutex);
    held.push_back(respond);
    holding = held.size();
  });
  const std::string first = "X-Forwarded-For: 192.0.2.1, 203.0.113.1\r\n";
  const std::string second = "X-Forwarded-For: 203.0.113.1\r\nX-Forwarded-For: 203.0.113.2\r\n";
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(std::make_unique<HttpClient>(server.port()));
  clients[0]->SendRequest("GET", "/held", {}, first);
  clients[1]->SendRequest("GET", "/held", {}, first);
  while (holding < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const Reply many = clients[2]->Ask("GET", "/", {}, first);
  EXPECT_EQ(many.status, 429);
  EXPECT_THAT(many.body, HasSubstr("this client has 2 requests at once"));
  EXPECT_EQ(many.Header("Retry-After"), "1");
  EXPECT_EQ(clients[3]->Ask("GET", "/", {}, second).body, "203.0.113.2");
  EXPECT_EQ(clients[4]->Ask("GET", "/", {}, {}).body, "127.0.0.1");
  {
    const std::lock_guard lock(mutex);
    for (const HttpRespond& respond : held) respond({.body = "late"});
  }
  EXPECT_EQ(clients[0]->Receive().body, "late");
  EXPECT_EQ(clients[1]->Receive().body, "late");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(clients[0]->Ask("GET", "/", {}, first).body, "203.0.113.1");
  EXPECT_EQ(server.WaitForAnswers(std::chrono::seconds(5)), 0);
  const std::lock_guard lock(mutex);
  ASSERT_EQ(logged.size(), 8U);
  for (const LoggedRequest& request : logged)
    EXPECT_EQ(request.proxy, request.peer == "127.0.0.1" ? "" : "127.0.0.1") << request.peer;
  EXPECT_EQ(std::ranges::count(logged, "203.0.113.1", &LoggedRequest::peer), 6);
}

TEST_F(HttpServerTest, NobodyElseNamesAClient) {
  HttpServerOptions options = AnyPort();
  options.limits.are_own_exempt = false;
  options.limits.peer_connections = 2;
  options.proxies = TrustedProxies({"192.0.2.1"});
  const HttpServer server(
      options, [](const HttpRequest& request, const HttpRespond& respond) { respond({.body = request.peer}); });
  HttpClient one(server.port());
  HttpClient two(server.port());
  EXPECT_EQ(one.Ask("GET", "/", {}, "X-Forwarded-For: 203.0.113.1\r\n").body, "127.0.0.1");
  EXPECT_EQ(two.Ask("GET", "/", {}, "X-Forwarded-For: 203.0.113.2\r\n").body, "127.0.0.1");
  HttpClient three(server.port());
  EXPECT_EQ(three.Ask("GET", "/", {}, "X-Forwarded-For: 203.0.113.3\r\n").status, 429);
}

// To their clients connections are accepted when the system has made them.
TEST_F(HttpServerTest, WhoHasConnectedIsAnsweredBeforeTheEnd) {
  std::promise<void> go;
  std::atomic<bool> is_held = false;
  HttpServer server(AnyPort(), [&](const HttpRequest& request, const HttpRespond& respond) {
    if (request.path == "/held") {
      is_held = true;
      go.get_future().wait();
    }
    respond({.body = "here"});
  });
  const uint16_t port = server.port();
  HttpClient asked(port);
  EXPECT_EQ(asked.Ask("GET", "/").status, 200);
  const HttpClient first(port);
  first.SendRequest("GET", "/held");
  while (!is_held) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::vector<std::unique_ptr<HttpClient>> others;
  for (int i = 0; i < 20; ++i) {
    others.push_back(std::make_unique<HttpClient>(port));
    if (i != 0) others.back()->SendRequest("GET", "/");
  }
  server.StopAccepting();
  server.StopAccepting();
  go.set_value();
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  others[0]->SendRequest("GET", "/");
  for (const auto& client : others) {
    const Reply reply = client->Receive();
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.Header("Connection"), "close");
  }
  EXPECT_EQ(server.WaitForAnswers(std::chrono::seconds(10)), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(asked.Receive().status, 0);
  EXPECT_FALSE(HttpClient(port).is_connected());
}

TEST_F(HttpServerTest, WhoNeverAsksDelaysTheEndByAMoment) {
  HttpServer server(AnyPort(), AnswerLength);
  HttpClient silent(server.port());
  while (server.counts().connections == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto begin = std::chrono::steady_clock::now();
  server.StopAccepting();
  EXPECT_EQ(server.WaitForAnswers(std::chrono::seconds(10)), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
  EXPECT_EQ(silent.Receive().status, 0);
}

// Clients that are connected are answered in time while others cannot connect.
TEST_F(HttpServerTest, AWantOfDescriptorsIsFeltByNewConnectionsAlone) {
  HttpServer server(AnyPort(), AnswerLength);
  HttpClient client(server.port());
  EXPECT_EQ(client.Ask("GET", "/").status, 200);
  HttpClient late(server.port(), /*connects=*/false);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit none = before;
  none.rlim_cur = 3;
  setrlimit(RLIMIT_NOFILE, &none);
  late.Connect();  // by the system alone
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client.Ask("GET", "/").status, 200);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(late.Ask("GET", "/").status, 200);
}

TEST_F(HttpServerTest, TlsIsSpoken) {
  const fs::path certificate = folder_ / "server.pem";
  const fs::path key = folder_ / "server.key";
  WriteKeys(certificate, key, {.name = "first"});
  HttpServerOptions options = AnyPort();
  options.tls = std::make_shared<TlsKeys>(certificate, key);
  HttpServer server(options, AnswerLength);
  const TlsReply reply = AskByTls(server.port(), "/");
  EXPECT_THAT(reply.text, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_EQ(reply.subject, "first");
  EXPECT_TRUE(reply.has_parted);
  EXPECT_THAT(AskByTls(server.port(), "/", TLS1_2_VERSION).text, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_ANY_THROW(AskByTls(server.port(), "/", TLS1_1_VERSION));
  const Reply plain = HttpClient(server.port()).Ask("GET", "/");
  EXPECT_EQ(plain.status, 426);
  EXPECT_THAT(plain.body, HasSubstr("this port speaks TLS"));
  EXPECT_THAT(plain.head, HasSubstr("Upgrade: TLS/1.2, HTTP/1.1"));
  HttpClient other(server.port());
  other.Send("\x01\x02\x03\x04\x05 neither");
  EXPECT_EQ(other.Receive().status, 0);
  // A new certificate is shown without a new start; one that is broken leaves the one before.
  WriteKeys(certificate, key, {.name = "second"});
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_EQ(AskByTls(server.port(), "/").subject, "second");
  WriteFileAtomically(key, "no key");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_EQ(AskByTls(server.port(), "/").subject, "second");
}

TEST_F(HttpServerTest, WrongKeysAreRefused) {
  const fs::path certificate = folder_ / "server.pem";
  const fs::path key = folder_ / "server.key";
  WriteKeys(certificate, key, {.name = "first"});
  const auto fault = [&](const fs::path& of, const fs::path& its) -> std::string {
    try {
      (void)TlsKeys(of, its);
    } catch (const Error& error) {
      return error.what();
    }
    return "no fault";
  };
  EXPECT_EQ(fault(certificate, key), "no fault");
  EXPECT_THAT(fault(key, key), HasSubstr("server.key: no certificate in PEM"));
  EXPECT_THAT(fault(certificate, certificate), HasSubstr("server.pem: everyone on this machine may read the key"));
  EXPECT_THAT(fault(folder_ / "none", key), HasSubstr("there is no such certificate"));
  WriteKeys(folder_ / "other.pem", folder_ / "other.key", {.name = "other"});
  EXPECT_THAT(fault(certificate, folder_ / "other.key"), HasSubstr("other.key: no key in PEM"));
}

}  // namespace
}  // namespace moka
