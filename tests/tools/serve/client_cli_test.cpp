// moka client beside moka infer: the same answers of the same files, whatever becomes of the server meanwhile, and from
// servers that lie or dawdle an error in place of a crash or a wait.
#include <gmock/gmock.h>

#include "core/checksum.h"
#include "tests/sanitized.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/serve/fake_server.h"
#include "tests/tools/serve/server_process.h"

namespace moka {
namespace {

using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

std::string AddressOf(const ServerProcess& server) { return StrCat("http://127.0.0.1:", int64_t{server.port()}); }

class ClientCliTest : public CliTest {
 protected:
  // A folder of digits in two folders, one of them no picture.
  static const std::string& Pictures() {
    static const std::string folder = [] {
      Run();
      EXPECT_EQ(Moka("data export data/test drawn --limit 40").code, 0);
      return std::string("drawn");
    }();
    return folder;
  }
  static std::string Zoo(const std::string& name) { return StrCat("'", MOKA_SOURCE_DIR, "/models/", name, "'"); }
  static std::string ZooPath(const std::string& name) { return StrCat(MOKA_SOURCE_DIR, "/models/", name); }
  static void ExpectSame(const std::string& client, const std::string& infer, int code = 0) {
    const Outcome asked = Moka("client " + client);
    const Outcome inferred = Moka("infer " + infer);
    EXPECT_EQ(asked.code, code) << asked.err;
    EXPECT_EQ(inferred.code, code) << inferred.err;
    EXPECT_EQ(asked.out, inferred.out) << client;
    EXPECT_FALSE(asked.out.empty());
  }
};

TEST_F(ClientCliTest, AnswersToPicturesAreThoseOfInfer) {
  const std::string& pictures = Pictures();
  const ServerProcess server(folder_, {"runs/lenet-0001"});
  const std::string url = AddressOf(server);
  for (const char* form : {" --json", ""}) {
    ExpectSame(StrCat(url, " ", pictures, form), StrCat("runs/lenet-0001 ", pictures, " --batch 1", form));
    ExpectSame(StrCat(url, "/v2/models/lenet-0001 ", pictures, " --parallel 1", form),
               StrCat("runs/lenet-0001 ", pictures, " --batch 1", form));
  }
  EXPECT_EQ(Json::parse(Moka(StrCat("client ", url, " ", pictures, " --json")).out).size(), 40U);
  // A file that is no picture, one that is cut and one that is not there are left out, and the exit code is the
  // first's.
  WriteFileAtomically(folder_ / "note.txt", "no picture\n");
  const std::string digit = ListFiles(folder_ / pictures, ".png").empty()
                                ? ""
                                : fs::relative(ListFiles(folder_ / pictures, ".png")[0], folder_).string();
  WriteFileAtomically(folder_ / "cut.png", ReadFile(folder_ / digit).substr(0, 90));
  const std::string files = StrCat(digit, " note.txt cut.png nothing.png ", digit);
  ExpectSame(StrCat(url, " ", files, " --json"), StrCat("runs/lenet-0001 ", files, " --json --batch 1"), 65);
  const Outcome asked = Moka(StrCat("client ", url, " ", files));
  EXPECT_THAT(asked.err, HasSubstr("warning: note.txt: the body is no picture (a text file)"));
  EXPECT_THAT(asked.err, HasSubstr("warning: cut.png: cannot decode the PNG"));
  EXPECT_THAT(asked.err, HasSubstr("warning: cannot open nothing.png"));
  EXPECT_THAT(asked.err, HasSubstr("warning: 3 of 5 left out"));
  EXPECT_EQ(Moka(StrCat("client ", url, " note.txt")).code, 65);
  EXPECT_EQ(Moka(StrCat("client ", url, " nothing.png")).code, 66);
  EXPECT_EQ(Moka(StrCat("client ", url)).code, 64);
  // Names that a path of an address has to write otherwise.
  fs::copy_file(folder_ / digit, folder_ / "a b%2F?ü#.png");
  ExpectSame(StrCat(url, " 'a b%2F?ü#.png' --json"), "runs/lenet-0001 'a b%2F?ü#.png' --json");
  const Outcome drawn = Moka(StrCat("client ", url, " ", digit, " --draw out"));
  EXPECT_EQ(drawn.code, 64);
  EXPECT_THAT(drawn.err, HasSubstr("(task CLASSIFY) draws nothing"));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(ClientCliTest, AnswersToTextsAreThoseOfInfer) {
  WriteFileAtomically(
      folder_ / "story.txt",
      "1 John travelled to the hallway.\n2 Mary journeyed to the bathroom.\n3 Where is John? \thallway\t1\n"
      "4 Where is Mary?\n");
  const std::string line = "Ein Mann geht auf der Straße.\nZwei Hunde spielen im Schnee.\n\n";
  std::string lines = line;
  while (lines.size() < 9000) lines += line;
  WriteFileAtomically(folder_ / "short.de", line);
  WriteFileAtomically(folder_ / "long.de", lines);
  const ServerProcess server(folder_, {ZooPath("babi_memn2n"), ZooPath("multi30k_attention")});
  const std::string url = AddressOf(server);
  const std::string story = StrCat(url, "/v2/models/babi_memn2n ");
  const std::string translation = StrCat(url, "/v2/models/multi30k_attention ");
  for (const char* form : {" --json", ""}) {
    ExpectSame(StrCat(story, "story.txt", form), StrCat(Zoo("babi_memn2n"), " story.txt", form));
    ExpectSame(StrCat(translation, "short.de short.de", form),
               StrCat(Zoo("multi30k_attention"), " short.de short.de --batch 1", form));
  }
  // A text that is asked about in parts.
  ExpectSame(translation + "long.de", Zoo("multi30k_attention") + " long.de --batch 1");
  WriteFileAtomically(folder_ / "bad.txt", "1 John went home.\nx y\n");
  const Outcome bad = Moka(StrCat("client ", story, "bad.txt"));
  EXPECT_EQ(bad.code, 65);
  EXPECT_THAT(bad.err, HasSubstr("error: bad.txt:2: expected \"NUMBER SENTENCE\""));
  EXPECT_EQ(Moka(StrCat("client ", story, "story.txt story.txt")).code, 64);
  EXPECT_EQ(Moka(StrCat("client ", story, "nothing.txt")).code, 66);
}

TEST_F(ClientCliTest, ModelsAreChosenShownAndLoaded) {
  const std::string& pictures = Pictures();
  WriteFileAtomically(folder_ / "tokens", StrCat("user:", Sha256("one"), ":user\nboss:", Sha256("two"), ":admin\n"));
  WriteFileAtomically(folder_ / "one.token", "one\n");
  WriteFileAtomically(folder_ / "two.token", "two\n");
  WriteFileAtomically(folder_ / "torn.token", "two\nthree\n");
  const ServerProcess server(folder_, {"runs/lenet-0001", "runs/lenet-0001@last", "--name", "digits,other",
                                       "--token-file", "tokens", "--allow-load"});
  const std::string url = AddressOf(server);
  const auto ask = [&](const std::string& words, const std::string& before = "MOKA_TOKEN=one") {
    return Moka(StrCat("client ", url, " ", words), before);
  };
  const Outcome unnamed = ask(pictures);
  EXPECT_EQ(unnamed.code, 64);
  EXPECT_THAT(unnamed.err, HasSubstr("--model says which to ask: digits, other"));
  const Outcome misspelt = ask(pictures + " --model digit");
  EXPECT_EQ(misspelt.code, 66);
  EXPECT_THAT(misspelt.err, HasSubstr("did you mean \"digits\"?"));
  EXPECT_EQ(ask(pictures + " --model digits").code, 0);
  // Tokens.
  const Outcome alone = ask("--status", "");
  EXPECT_EQ(alone.code, 77);
  EXPECT_THAT(alone.err, HasSubstr("MOKA_TOKEN"));
  EXPECT_EQ(ask("--status", "MOKA_TOKEN=three").code, 77);
  EXPECT_EQ(ask("--status --token-file one.token", "MOKA_TOKEN=three").code, 0);
  const Outcome torn = ask("--status --token-file torn.token", "");
  EXPECT_EQ(torn.code, 65);
  EXPECT_THAT(torn.err, HasSubstr("torn.token holds no token"));
  EXPECT_THAT(torn.err, testing::Not(HasSubstr("three")));
  EXPECT_EQ(ask("--load digits").code, 77);
  // States.
  EXPECT_THAT(ask("--status").out, testing::ContainsRegex("digits +1 +READY"));
  const Outcome unloaded = ask("--unload digits --token-file two.token --json");
  EXPECT_EQ(unloaded.code, 0) << unloaded.err;
  EXPECT_EQ(Json::parse(unloaded.out), (Json{{"model", "digits"}, {"loaded", false}}));
  const Json status = Json::parse(ask("--status --json").out);
  EXPECT_EQ(status["models"][0]["state"], "UNAVAILABLE");
  EXPECT_EQ(status["models"][1]["state"], "READY");
  EXPECT_EQ(status["ready"], true);
  const Outcome gone = ask(pictures + " --model digits --patience 0.3");
  EXPECT_EQ(gone.code, 69);
  EXPECT_THAT(gone.err, HasSubstr("model \"digits\" is not loaded"));
  EXPECT_EQ(ask("--load digits --token-file two.token").code, 0);
  EXPECT_EQ(ask(pictures + " --model digits").code, 0);
  EXPECT_EQ(ask("--load digit --token-file two.token").code, 66);
  EXPECT_EQ(ask("--status --load digits").code, 64);
  EXPECT_EQ(ask("--status drawn").code, 64);
}

// A server that is killed and started again, twice, loses no answer of a client that asks on.
TEST_F(ClientCliTest, AServerThatIsKilledLosesNothing) {
  const std::string& pictures = Pictures();
  std::string names;
  for (int i = 0; i < 100; ++i) {
    for (const fs::path& file : ListFiles(folder_ / pictures, ".png"))
      names += fs::relative(file, folder_).string() + "\n";
  }
  ASSERT_FALSE(names.empty());
  WriteFileAtomically(folder_ / "names", names);
  auto server = std::make_unique<ServerProcess>(folder_, std::vector<std::string>{"runs/lenet-0001"});
  const uint16_t port = server->port();
  const std::string url = AddressOf(*server);
  Outcome asked;
  std::thread client([&] {
    asked.code = std::system(StrCat("cd '", folder_.string(), "' && '", MOKA_BINARY, "' client ", url,
                                    " - --json <names >asked.json 2>asked.err")
                                 .c_str());
  });
  for (int i = 0; i < 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    server->Signal(SIGKILL);
    server.reset();
    EXPECT_EQ(fs::file_size(folder_ / "asked.json"), 0U) << "the client was too fast";
    server = std::make_unique<ServerProcess>(folder_, std::vector<std::string>{"runs/lenet-0001"}, port);
  }
  client.join();
  EXPECT_EQ(asked.code, 0) << ReadFile(folder_ / "asked.err");
  const Outcome inferred =
      RunShell(StrCat("cd '", folder_.string(), "' && '", MOKA_BINARY, "' infer runs/lenet-0001 - --json --batch 1"),
               folder_, (folder_ / "names").string());
  EXPECT_EQ(ReadFile(folder_ / "asked.json"), inferred.out);
}

// Wrong words of a server, and those of the client about them.
TEST_F(ClientCliTest, ServersThatLieAreToldSo) {
  Pictures();
  struct Case {
    std::string name;
    std::string answer;
    std::string told;
    int code = 76;
  };
  const std::string index = R"([{"name":"m","version":"1","state":"READY","reason":""}])";
  const std::string config = R"({"name":"m","task":"CLASSIFY"})";
  const std::string good = R"([{"file":"f","top":[{"label":"x","index":0,"score":0.5}]}])";
  const std::vector<Case> cases = {
      {"SSH", "SSH-2.0-OpenSSH_9.2\r\n", "what is no HTTP"},
      {"nothing", "", "broke off"},
      {"half of a head", "HTTP/1.1 200 OK\r\nContent-Le", "broke off"},
      {"half of a body", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[", "broke off"},
      {"a long head", StrCat("HTTP/1.1 200 OK\r\nA: ", std::string(100000, 'a'), "\r\n\r\n"), "what is no HTTP"},
      {"a wrong length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "what is no HTTP"},
      {"a huge length", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "more than 64.0 MiB"},
      {"a wrong chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "what is no HTTP"},
      {"an interim answer", "HTTP/1.1 100 Continue\r\n\r\n", "a status of 100"},
      {"a redirection", HttpText("", "301 Moved", "Location: http://127.0.0.1:1/\r\n"), "a status of 301"},
      {"no JSON", HttpText("hello"), "no JSON: hello"},
      {"deep JSON", HttpText(std::string(100000, '[')), "nested more than 64 deep"},
      {"wide JSON", HttpText("[" + std::string(3000000, ',') + "]"), "JSON of more than"},
      {"a number", HttpText("1"), "answer to"},
      {"two pictures", HttpText("[{},{}]"), "it is of 2 pictures"},
      {"no file", HttpText(R"([{"top":[]}])"), "none of its task"},
      {"no classes", HttpText(R"([{"file":"f"}])"), "none of its task"},
      {"a wrong class", HttpText(R"([{"file":"f","top":[{"label":1,"score":"x"}]}])"), "none of its task"},
      {"an error of a proxy", HttpText("<html>", "500 Error"), "a status of 500"},
      {"an error that commands a terminal", HttpText(R"({"error":"\u001b[31mred\nerror: x"})", "400 Bad Request"),
       "\\x1b[31mred\\x0aerror: x", 65},
      {"too much to do", HttpText(R"({"error":"full"})", "429 Many", "Retry-After: 100\r\n"), "full", 69},
      {"a picture too large", HttpText(R"({"error":"too large"})", "413 Large"), "too large", 65},
      {"the truth", HttpText(good), "1 answer", 0}};
  for (const Case& one : cases) {
    const FakeServer server([&](FakeServer::Peer& peer) {
      for (std::string head = peer.Receive(); !head.empty(); head = peer.Receive()) {
        const bool is_asked = head.find("/predict/") != std::string::npos;
        const std::string facts = HttpText(head.starts_with("POST") ? index : config);
        if (!peer.Send(is_asked ? one.answer : facts) || (is_asked && one.code == 76)) return;
        if (is_asked && one.answer.empty()) return;
      }
    });
    const fs::path digit = fs::relative(ListFiles(folder_ / "drawn", ".png").at(0), folder_);
    const auto begin = Clock::now();
    const Outcome asked = Moka(StrCat("client ", server.address(), " ", digit.string(), " --patience 0.2 --timeout 5"),
                               kIsSanitized ? "" : "ulimit -v 2000000;");
    EXPECT_EQ(asked.code, one.code) << one.name << ": " << asked.err;
    EXPECT_THAT(asked.err, HasSubstr(one.told)) << one.name;
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10)) << one.name;
  }
}

// Servers whose answers do not end are given up.
TEST_F(ClientCliTest, ServersThatDawdleAreGivenUp) {
  const auto expect = [&](const std::string& what, const std::string& told,
                          const std::function<void(FakeServer::Peer & peer)>& serve) {
    const FakeServer server(serve);
    const auto begin = Clock::now();
    const Outcome asked = Moka(StrCat("client ", server.address(), " --status --timeout 1"));
    EXPECT_EQ(asked.code, 76) << what << ": " << asked.err;
    EXPECT_THAT(asked.err, HasSubstr(told)) << what;
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5)) << what;
  };
  const auto drip = [](FakeServer::Peer& peer, const std::string& begin, const std::string& step) {
    peer.Receive();
    for (bool goes_on = peer.Send(begin); goes_on; goes_on = peer.Send(step))
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  expect("silence", "gave no answer within 1 s", [](FakeServer::Peer& peer) {
    while (!peer.is_over()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  expect("a slow head", "gave no answer within 1 s", [&](FakeServer::Peer& peer) { drip(peer, "H", "T"); });
  expect("a slow body", "gave no answer within 1 s",
         [&](FakeServer::Peer& peer) { drip(peer, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", " "); });
  expect("endless chunks", "answer of more than 64.0 MiB", [](FakeServer::Peer& peer) {
    peer.Receive();
    peer.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    const std::string chunk = StrCat("100000\r\n", std::string(1 << 20, ' '), "\r\n");
    while (peer.Send(chunk)) {
    }
  });
}

TEST_F(ClientCliTest, AddressesThatAreNoneAreRefused) {
  for (const auto& [address, told] :
       std::map<std::string, std::string>{{"https://", "expected http://HOST:PORT"},
                                          {"htps://127.0.0.1", "or https:// where it speaks TLS"},
                                          {"http://127.0.0.1:http", "expected http://HOST:PORT"},
                                          {"http://127.0.0.1:70000", "expected http://HOST:PORT"},
                                          {"http://", "expected http://HOST:PORT"},
                                          {"http://user:word@127.0.0.1", "expected http://HOST:PORT"},
                                          {"http://127.0.0.1/x?y", "expected http://HOST:PORT"},
                                          {"http://127.0.0.1/v2/models/a/versions/1", "names more than a model"},
                                          {"http://127.0.0.1/v2/models/a", "--status stands beside an address that"},
                                          {"http://[::1", "expected http://HOST:PORT"},
                                          {"'http://127.0.0.1/a b'", "expected http://HOST:PORT"},
                                          {"127.0.0.1:8000", "expected http://HOST:PORT"}}) {
    const Outcome asked = Moka(StrCat("client ", address, " --status"));
    EXPECT_EQ(asked.code, 64) << address;
    EXPECT_THAT(asked.err, HasSubstr(told)) << address;
  }
  const Outcome away = Moka("client http://127.0.0.1:1 --status");
  EXPECT_EQ(away.code, 76);
  EXPECT_THAT(away.err, HasSubstr("cannot reach 127.0.0.1:1: Connection refused"));
  EXPECT_EQ(Moka("client").code, 64);
}

}  // namespace
}  // namespace moka
