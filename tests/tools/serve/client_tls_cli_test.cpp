// moka client and servers of TLS: the same answers as without it, and for each fault one error that says what to do.
#include <gmock/gmock.h>

#include "core/file.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/serve/fake_server.h"
#include "tests/tools/serve/server_process.h"
#include "tests/tools/serve/tls_client.h"
#include "tools/serve/client/http_caller.h"
#include "tools/serve/http_server.h"
#include "tools/serve/tls_keys.h"

namespace moka {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// Answers as a server without models.
void AnswerAsServer(const HttpRequest& request, const HttpRespond& respond) {
  if (request.path == "/v2/repository/index") return respond({.body = "[]"});
  respond({.body = R"({"name":"test","version":"1"})"});
}

class ClientTlsCliTest : public CliTest {
 protected:
  void SetUp() override { WriteKeys(Path("ca.pem"), Path("ca.key"), {.name = "the test", .is_authority = true}); }

  static fs::path Path(const std::string& name) { return folder_ / name; }
  // A server of this process with a certificate of these facts, "server.pem".
  static std::unique_ptr<HttpServer> Server(const CertificateFacts& facts, HttpLimits limits = {}) {
    WriteKeys(Path("server.pem"), Path("server.key"), facts);
    HttpServerOptions options;
    options.port = 0;
    options.limits = limits;
    options.tls = std::make_shared<TlsKeys>(Path("server.pem"), Path("server.key"));
    return std::make_unique<HttpServer>(options, AnswerAsServer);
  }
  static std::string Address(uint16_t port, const std::string& host = "127.0.0.1") {
    return StrCat("https://", host, ":", int64_t{port});
  }
  static Outcome Status(const std::string& address, const std::string& words, const std::string& before = {}) {
    return Moka(StrCat("client ", address, " --status ", words), before);
  }
  // The call fails at once, whatever patience there is, with exit code 76.
  static void ExpectFault(const std::string& address, const std::string& words, const std::vector<std::string>& told) {
    const auto begin = Clock::now();
    const Outcome asked = Status(address, words + " --patience 60");
    EXPECT_EQ(asked.code, 76) << asked.err;
    for (const std::string& text : told) EXPECT_THAT(asked.err, HasSubstr(text));
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20)) << asked.err;
  }
};

TEST_F(ClientTlsCliTest, AnswersAreThoseOfInfer) {
  EXPECT_EQ(Moka("data import glyphs:12:1 digits").code, 0);
  EXPECT_EQ(Moka("data export digits drawn").code, 0);
  const std::string lenet = StrCat(MOKA_SOURCE_DIR, "/models/lenet");
  WriteKeys(Path("server.pem"), Path("server.key"),
            {.name = "a server", .names = "DNS:localhost,IP:127.0.0.1", .authority = Path("ca")});
  const ServerProcess server(folder_, {lenet, "--tls-cert", "server.pem", "--tls-key", "server.key"});
  const Outcome asked = Moka(StrCat("client ", Address(server.port()), " drawn --json --ca ca.pem"));
  const Outcome inferred = Moka(StrCat("infer '", lenet, "' drawn --json --batch 1"));
  EXPECT_EQ(asked.code, 0) << asked.err;
  EXPECT_EQ(asked.out, inferred.out);
  EXPECT_GE(Json::parse(asked.out).size(), 10U);
  const std::string model = Address(server.port(), "localhost") + "/v2/models/lenet";
  const Outcome bench = Moka(StrCat("bench serve ", model, " --ca ca.pem --clients 3 --seconds 0.3 --json"));
  ASSERT_EQ(bench.code, 0) << bench.err;
  const Json statuses = Json::parse(bench.out)[0]["statuses"];
  EXPECT_EQ(statuses.size(), 1U);
  EXPECT_GT(statuses.value("200", 0), 0);
  const Outcome doubted = Moka(StrCat("bench serve ", model, " --seconds 0.3"));
  EXPECT_EQ(doubted.code, 76);
  EXPECT_THAT(doubted.err, HasSubstr("who is not trusted here\n  help: --ca FILE"));
}

TEST_F(ClientTlsCliTest, CertificatesAreBelievedForWhatTheySay) {
  const auto server = Server({.name = "x", .names = "DNS:localhost,IP:127.0.0.1", .authority = Path("ca")});
  const std::string address = Address(server->port());
  EXPECT_EQ(Status(address, "--ca ca.pem").code, 0);
  EXPECT_EQ(Status(Address(server->port(), "localhost"), "--ca ca.pem").code, 0);
  EXPECT_EQ(Status(address, "--ca server.pem").code, 0);  // itself
  EXPECT_EQ(Status(address, {}, "SSL_CERT_FILE=ca.pem").code, 0);
  ExpectFault(address, {},
              {StrCat("127.0.0.1:", int64_t{server->port()}, " shows a certificate that the test signed"),
               "--ca FILE takes the authority's certificate"});
  WriteKeys(Path("other.pem"), Path("other.key"), {.name = "another", .is_authority = true});
  ExpectFault(address, "--ca other.pem", {"that the test signed, who is not trusted here"});
}

TEST_F(ClientTlsCliTest, CertificatesThatAreNotGoodAreRefused) {
  const auto fault = [](CertificateFacts facts, const std::vector<std::string>& told) {
    facts.authority = Path("ca");
    const auto server = Server(facts);
    ExpectFault(Address(server->port()), "--ca ca.pem", told);
  };
  const std::string here = "IP:127.0.0.1";
  fault({.name = "127.0.0.1", .names = "DNS:a.test,DNS:*.b.test,IP:::1"},
        {"shows a certificate of a.test, *.b.test, ::1, not of 127.0.0.1", "ask it by a name"});
  fault({.name = "127.0.0.1"}, {"a certificate without a name", "subjectAltName"});
  fault({.name = "x", .names = here, .begin_s = -7200, .end_s = -3600}, {"a certificate that ended at 2", "renewed"});
  fault({.name = "x", .names = here, .begin_s = 3600, .end_s = 7200}, {"that begins at 2", "clock is wrong"});
  // An authority that is none.
  WriteKeys(Path("ca.pem"), Path("ca.key"), {.name = "the test"});
  WriteKeys(Path("below.pem"), Path("below.key"), {.name = "below", .names = "DNS:below", .authority = Path("ca")});
  WriteKeys(Path("server.pem"), Path("server.key"), {.name = "x", .names = here, .authority = Path("below")});
  WriteFileAtomically(Path("server.pem"), ReadFile(Path("server.pem")) + ReadFile(Path("below.pem")));
  HttpServerOptions options;
  options.port = 0;
  options.tls = std::make_shared<TlsKeys>(Path("server.pem"), Path("server.key"));
  const HttpServer server(options, AnswerAsServer);
  ExpectFault(Address(server.port()), "--ca ca.pem", {"invalid CA certificate"});
}

TEST_F(ClientTlsCliTest, FilesOfAuthoritiesThatAreNoneAreRefused) {
  WriteFileAtomically(Path("note.txt"), "no certificate\n");
  EXPECT_EQ(Status("https://127.0.0.1:1", "--ca nothing.pem").code, 66);
  const Outcome note = Status("https://127.0.0.1:1", "--ca note.txt");
  EXPECT_EQ(note.code, 65);
  EXPECT_THAT(note.err, HasSubstr("note.txt: there is no certificate in PEM"));
  const Outcome plain = Status("http://127.0.0.1:1", "--ca ca.pem");
  EXPECT_EQ(plain.code, 64);
  EXPECT_THAT(plain.err, HasSubstr("--ca is of servers that speak TLS\n  help: expected https://127.0.0.1:1"));
}

TEST_F(ClientTlsCliTest, ServersWithoutTlsAreToldSo) {
  const auto fault = [](const std::string& answer, const std::vector<std::string>& told) {
    const FakeServer server([&](FakeServer::Peer& peer) {
      peer.Send(answer);
      peer.Receive();  // until the client leaves
    });
    ExpectFault("https" + server.address().substr(4), {}, told);
  };
  fault("SSH-2.0-OpenSSH_9.2\r\n", {"speaks no TLS\n  help: a server of plain HTTP is asked at http://127.0.0.1:"});
  fault("\x15\x03\x01\x00\x02\x02\x46"s, {"have no TLS in common", "protocol version", "TLS 1.2 and later"});
  const HttpServer plain({.port = 0}, AnswerAsServer);
  ExpectFault(Address(plain.port()), {}, {"speaks no TLS"});
}

TEST_F(ClientTlsCliTest, ServersThatWantTlsAreToldSo) {
  const auto server = Server({.name = "x", .names = "IP:127.0.0.1"});
  const std::string here = StrCat("127.0.0.1:", int64_t{server->port()});
  ExpectFault("http://" + here, {}, {StrCat(here, " speaks TLS\n  help: ask https://", here)});
  const auto fault = [](const std::string& answer, const std::string& told) {
    const FakeServer fake([&](FakeServer::Peer& peer) {
      peer.Receive();
      if (!answer.empty()) peer.Send(answer);
    });
    const Outcome asked = Status(fake.address(), "--patience 0");
    EXPECT_EQ(asked.code, 76) << asked.err;
    EXPECT_THAT(asked.err, HasSubstr(told));
  };
  fault(HttpText("<html>The plain HTTP request was sent to HTTPS port</html>", "400 Bad Request"),
        "speaks TLS\n  help: ask");
  fault("\x15\x03\x01\x00\x02\x02\x46"s, "speaks TLS\n  help: ask https://127.0.0.1:");
  fault("", "a server that speaks TLS is asked at https://127.0.0.1:");
}

TEST_F(ClientTlsCliTest, HandshakesThatDawdleAreGivenUp) {
  const auto expect = [](const std::function<void(FakeServer::Peer & peer)>& serve, const std::string& told) {
    const FakeServer server(serve);
    const auto begin = Clock::now();
    const Outcome asked = Status("https" + server.address().substr(4), "--timeout 1");
    EXPECT_EQ(asked.code, 76) << asked.err;
    EXPECT_THAT(asked.err, HasSubstr(told));
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
  };
  const std::string late = "did not end the handshake of TLS within 1 s";
  expect(
      [](FakeServer::Peer& peer) {
        while (!peer.is_over()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      },
      late);
  expect(
      [](FakeServer::Peer& peer) {
        for (bool goes_on = peer.Send("\x16\x03\x03\x40\x00"s); goes_on; goes_on = peer.Send("\x02"))
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
      },
      late);
  expect([](FakeServer::Peer&) {}, "broke off the handshake of TLS");
}

// A connection that the server has closed meanwhile is made anew, its handshake with it.
TEST_F(ClientTlsCliTest, ConnectionsAreKeptAndMadeAnew) {
  const auto server =
      Server({.name = "x", .names = "IP:127.0.0.1"}, {.idle_time = std::chrono::seconds(1), .connection_requests = 3});
  HttpCaller caller({.host = "127.0.0.1", .port = StrCat(int64_t{server->port()}), .is_tls = true}, {},
                    TrustIn(Path("server.pem")));
  const std::string large(3 << 20, 'x');
  for (int i = 0; i < 7; ++i) EXPECT_EQ(caller.Call("POST", "/v2", large).status, 200);
  std::this_thread::sleep_for(std::chrono::milliseconds(1300));
  EXPECT_EQ(server->counts().connections, 0);
  EXPECT_EQ(caller.Call("GET", "/v2", {}).status, 200);
  EXPECT_EQ(server->counts().connections, 1);
}

}  // namespace
}  // namespace moka
