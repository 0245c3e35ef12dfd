// The files of docs/serving say nothing that the program does not have: their flags, addresses and ports; and where
// systemd or nginx is installed, these read them, and a request goes through nginx.
#include <gmock/gmock.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <regex>

#include "core/error.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/serve/server_process.h"
#include "tools/cli/command_line.h"

namespace moka {
namespace {

using testing::HasSubstr;

fs::path ExampleFile(const std::string& name) { return fs::path(MOKA_SOURCE_DIR) / "docs/serving" / name; }
std::string Example(const std::string& name) { return ReadFile(ExampleFile(name)); }

// First groups of all matches.
std::vector<std::string> Found(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern, std::regex::ECMAScript | std::regex::multiline);
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), regex); it != std::sregex_iterator(); ++it)
    found.push_back((*it)[1]);
  return found;
}

std::string Only(const std::string& text, const std::string& pattern) {
  const std::vector<std::string> found = Found(text, pattern);
  EXPECT_EQ(found.size(), 1U) << pattern;
  return found.empty() ? "" : found[0];
}

// The settings that moka serve makes of these words.
Arguments ServeArguments(const std::vector<std::string>& words) {
  const Verb* serve = FindVerb(AllVerbs(), "serve");
  EXPECT_NE(serve, nullptr);
  try {
    return ParseArguments(*serve, words);
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
    return {};
  }
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

class ServingExamplesTest : public CliTest {
 protected:
  static bool Has(const std::string& program) { return RunShell(StrCat("command -v ", program), folder_).code == 0; }
};

TEST_F(ServingExamplesTest, TheUnitStartsTheServer) {
  const std::string unit = Example("moka-serve.service");
  std::vector<std::string> words = Split(Only(unit, "^ExecStart=(.*)$"), ' ');
  ASSERT_GE(words.size(), 3U);
  EXPECT_EQ(words[0], "/usr/bin/moka");
  EXPECT_EQ(words[1], "serve");
  const Arguments arguments = ServeArguments({words.begin() + 2, words.end()});
  EXPECT_EQ(arguments.Peek("port"), "8000");
  EXPECT_EQ(arguments.Peek("token-file"), "${CREDENTIALS_DIRECTORY}/tokens");
  // Time to end in, as help says it.
  EXPECT_GT(std::stoi(Only(unit, "^TimeoutStopSec=([0-9]+)$")), 5 + 30);
  const std::string help = Moka("serve --help").out;
  EXPECT_THAT(help, testing::ContainsRegex("--grace S .*default 5"));
  EXPECT_THAT(help, testing::ContainsRegex("--drain S .*default 30"));
  if (!Has("systemd-analyze")) GTEST_SKIP() << "there is no systemd-analyze to read the unit";
  WriteFileAtomically(folder_ / "moka-serve.service", Replaced(unit, "/usr/bin/moka", MOKA_BINARY));
  const Outcome read =
      RunShell(StrCat("systemd-analyze verify --man=no '", (folder_ / "moka-serve.service").string(), "'"), folder_);
  EXPECT_EQ(read.code, 0);
  EXPECT_EQ(read.err, "");
}

TEST_F(ServingExamplesTest, TheContainerStartsTheServer) {
  const std::string file = Example("Containerfile");
  std::vector<std::string> words = Json::parse(Only(file, "^ENTRYPOINT (.*)$")).get<std::vector<std::string>>();
  ASSERT_EQ(words.size(), 3U);
  EXPECT_EQ(words[0], "/usr/bin/moka");
  EXPECT_EQ(words[1], "serve");
  const auto more = Json::parse(Only(file, "^CMD (.*)$")).get<std::vector<std::string>>();
  words.insert(words.end(), more.begin(), more.end());
  const Arguments arguments = ServeArguments({words.begin() + 2, words.end()});
  EXPECT_EQ(arguments.Peek("host"), "0.0.0.0");
  EXPECT_TRUE(arguments.Has("token-file"));  // without which the server refuses that address
  EXPECT_EQ(arguments.Peek("port"), Only(file, "^EXPOSE ([0-9]+)$"));
  EXPECT_THAT(Only(file, "^FROM (.*)$"), HasSubstr("debian:12"));
  for (const std::string& line : Split(file, '\n')) {
    static const std::regex known("(#.*|(FROM|COPY|RUN|USER|EXPOSE|STOPSIGNAL|ENTRYPOINT|CMD) .*|    && .*|)");
    EXPECT_TRUE(std::regex_match(line, known)) << line;
  }
}

TEST_F(ServingExamplesTest, TheDeploymentsProbesAndTimesAreTheServers) {
  const std::string yaml = Example("kubernetes.yaml");
  std::vector<std::string> words = {"/models"};
  for (const std::string& word : Found(yaml, "^ +- (--.*)$")) words.push_back(word);
  const Arguments arguments = ServeArguments(words);
  EXPECT_EQ(arguments.Peek("host"), "0.0.0.0");
  EXPECT_TRUE(arguments.Has("token-file"));
  EXPECT_EQ(arguments.Peek("port"), Only(yaml, "containerPort: ([0-9]+)"));
  EXPECT_EQ(arguments.Peek("port"), Only(yaml, "prometheus.io/port: \"([0-9]+)\""));
  EXPECT_GT(std::stoi(Only(yaml, "terminationGracePeriodSeconds: ([0-9]+)")),
            std::stoi(arguments.Peek("grace")) + std::stoi(arguments.Peek("drain")));
  const Json openapi = Json::parse(ReadFile(fs::path(MOKA_SOURCE_DIR) / "tools/serve/openapi.json"));
  std::vector<std::string> paths = Found(yaml, "^ +path: (/.*)$");
  paths.push_back(Only(yaml, "prometheus.io/path: (.*)$"));
  EXPECT_THAT(paths, testing::ElementsAre("/v2/health/ready", "/v2/health/live", "/metrics"));
  for (const std::string& path : paths) EXPECT_TRUE(openapi["paths"].contains(path)) << path;
  EXPECT_EQ(Found(yaml, "^kind: (.*)$"), (std::vector<std::string>{"Deployment", "Service"}));
  EXPECT_EQ(yaml.find('\t'), std::string::npos);
  std::string python;
  for (const char* one : {"python3", "/usr/bin/python3"}) {
    if (RunShell(StrCat(one, " -c 'import yaml'"), folder_).code == 0) python = one;
  }
  if (python.empty()) GTEST_SKIP() << "there is no Python with yaml to read the whole file";
  const Outcome read = RunShell(
      StrCat(python, " -c 'import json,sys,yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))' '",
             ExampleFile("kubernetes.yaml").string(), "'"),
      folder_);
  ASSERT_EQ(read.code, 0) << read.err;
  const Json documents = Json::parse(read.out);
  const Json& pod = documents[0]["spec"]["template"];
  EXPECT_EQ(documents[0]["spec"]["selector"]["matchLabels"]["app"], pod["metadata"]["labels"]["app"]);
  EXPECT_EQ(documents[1]["spec"]["selector"]["app"], pod["metadata"]["labels"]["app"]);
  EXPECT_EQ(pod["spec"]["containers"][0]["readinessProbe"]["httpGet"]["path"], "/v2/health/ready");
  EXPECT_EQ(pod["spec"]["containers"][0]["livenessProbe"]["httpGet"]["path"], "/v2/health/live");
}

// nginx in a folder of the test, before a server: pictures, tensors and refusals go through, slow and fast, and a
// server that is killed behind it loses no answer of a client that waits.
TEST_F(ServingExamplesTest, NginxPassesEverythingOn) {
  const std::string given = Example("nginx.conf");
  EXPECT_THAT(Moka("serve --help").out,
              HasSubstr("the largest request (default " + Only(given, "client_max_body_size ([0-9]+)m;") + ")"));
  EXPECT_LT(std::stoi(Only(given, "max_conns=([0-9]+)")), 64);
  const std::string page = ReadFile(fs::path(MOKA_SOURCE_DIR) / "docs/serving.md");
  EXPECT_THAT(page, HasSubstr("64 of one address"));
  EXPECT_LT(std::stoi(Only(given, "^  keepalive_timeout ([0-9]+)s;")), 75);
  EXPECT_THAT(page, HasSubstr("75 s without a request"));
  for (const char* program : {"nginx", "openssl", "curl"}) {
    if (!Has(program)) GTEST_SKIP() << "there is no " << program << " to ask through nginx";
  }
  Run();
  EXPECT_EQ(Moka("data export data/test drawn --limit 20").code, 0);
  auto server = std::make_unique<ServerProcess>(
      folder_, std::vector<std::string>{"runs/lenet-0001", "--most-wait", "60000", "--request-log", "requests.jsonl",
                                        Only(given, "(--trusted-proxy) "), "127.0.0.1"});
  const uint16_t served = server->port();
  const std::string folder = folder_.string();
  const std::string tls = StrCat(int64_t{FreePort()});
  const std::string plain = StrCat(int64_t{FreePort()});
  ASSERT_EQ(RunShell(StrCat("openssl req -x509 -newkey rsa:2048 -nodes -keyout '", folder, "/key.pem' -out '", folder,
                            "/cert.pem' -days 2 -subj /CN=models.example.org"),
                     folder_)
                .code,
            0);
  std::string conf = Replaced(given, "127.0.0.1:8000 max", StrCat("127.0.0.1:", int64_t{served}, " max"));
  conf = Replaced(conf, "listen 443 ssl;", StrCat("listen 127.0.0.1:", tls, " ssl; listen 127.0.0.1:", plain, ";"));
  conf = Replaced(conf, "/etc/moka/tls/fullchain.pem", folder + "/cert.pem");
  conf = Replaced(conf, "/etc/moka/tls/privkey.pem", folder + "/key.pem");
  std::string places;
  for (const char* kind : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"})
    places += StrCat(kind, "_temp_path ", folder, "/", kind, ";\n");
  WriteFileAtomically(folder_ / "main.conf",
                      StrCat(geteuid() == 0 ? "user root;\n" : "", "worker_processes 1;\nerror_log stderr;\npid ",
                             folder, "/nginx.pid;\nevents {}\nhttp {\naccess_log off;\n", places, conf, "}\n"));
  const std::string nginx = StrCat("nginx -p '", folder, "' -c '", folder, "/main.conf'");
  const Outcome read = RunShell(nginx + " -t", folder_);
  ASSERT_EQ(read.code, 0) << read.err;
  EXPECT_THAT(read.err, testing::Not(HasSubstr("[warn]")));
  ASSERT_EQ(RunShell(nginx, folder_).code, 0);
  struct Ending {
    std::string line;
    ~Ending() { (void)std::system(line.c_str()); }
  } const ending{// its files go with it
                 StrCat(nginx, " -s stop 2>/dev/null; for i in $(seq 200); do [ -e '", folder,
                        "/nginx.pid' ] || break; sleep 0.05; done")};
  const auto curl = [&](const std::string& words) {
    return RunShell(StrCat("cd '", folder, "' && curl -sk --max-time 20 ", words), folder_);
  };
  const std::string address = StrCat("https://127.0.0.1:", tls);
  for (int i = 0; i < 100 && curl(address + "/v2/health/live").code != 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(curl(address + "/v2/health/ready").out, R"({"ready":true,"live":true})");
  const std::string digit = fs::relative(ListFiles(folder_ / "drawn", ".png").at(0), folder_);
  fs::copy_file(folder_ / digit, folder_ / "a b%2F?.png");
  const std::string inferred = Moka("infer runs/lenet-0001 'a b%2F?.png' --json").out;
  EXPECT_EQ(curl(StrCat("-T ", digit, " ", address, "/v2/models/lenet-0001/predict/a%20b%252F%3F.png")).out, inferred);
  // A body in chunks, one that is larger than memory's share, and one that is too large.
  EXPECT_EQ(curl(StrCat("-H 'Transfer-Encoding: chunked' --data-binary @", digit, " ", address,
                        "/v2/models/lenet-0001/predict/a%20b%252F%3F.png"))
                .out,
            inferred);
  fs::resize_file((WriteFileAtomically(folder_ / "rows", ""), folder_ / "rows"), 784 * 4 * 2000);
  const std::string head = R"({"inputs":[{"name":"data","shape":[2000,1,28,28],"datatype":"FP32",)"
                           R"("parameters":{"binary_data_size":6272000}}]})";
  WriteFileAtomically(folder_ / "request", head + ReadFile(folder_ / "rows"));
  const std::string asked = curl(StrCat("-H 'Inference-Header-Content-Length: ", head.size(),
                                        "' --data-binary @request ", address, "/v2/models/lenet-0001/infer"))
                                .out;
  EXPECT_EQ(Json::parse(asked, nullptr, false)["outputs"][0]["shape"], Json({2000, 10}));
  fs::resize_file(folder_ / "rows", uintmax_t{65} << 20);
  EXPECT_EQ(
      curl(StrCat("-o /dev/null -w '%{http_code}' --data-binary @rows ", address, "/v2/models/lenet-0001/infer")).out,
      "413");
  EXPECT_THAT(curl(StrCat("-d '{}' ", address, "/v2/models/lenet/infer")).out, HasSubstr("there are lenet-0001"));
  EXPECT_EQ(curl(StrCat("-o /dev/null -w '%{http_code}' ", address, "/metrics")).out, "200");
  // nginx adds its client's address, which is this machine's own: trusted, so that the word of it counts.
  for (const char* place : {"/healthz", "/metrics"}) {
    curl(StrCat("-H 'X-Forwarded-For: 203.0.113.9' ", address, place));
    Json last = Json::object();
    for (int i = 0; i < 500 && last.value("path", "") != place; ++i) {  // a line is written behind its answer
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const std::vector<std::string> lines = Split(ReadFile(folder_ / "requests.jsonl"), '\n');
      last = Json::parse(lines.at(lines.size() - 2));
    }
    EXPECT_EQ(last["path"], place);
    EXPECT_EQ(last["peer"], "203.0.113.9");
    EXPECT_EQ(last["proxy"], "127.0.0.1");
  }
  // A client through nginx while the server is away: nginx says 502, and the client waits.
  const std::string through = StrCat("client http://127.0.0.1:", plain, " drawn --json --parallel 8");
  const std::string expected = Moka("infer runs/lenet-0001 drawn --json --batch 1").out;
  EXPECT_EQ(Moka(through).out, expected);
  server->Signal(SIGKILL);
  server.reset();
  Outcome waited;
  std::thread client([&] { waited = RunShell(StrCat("cd '", folder, "' && '", MOKA_BINARY, "' ", through), folder_); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  server = std::make_unique<ServerProcess>(folder_, std::vector<std::string>{"runs/lenet-0001"}, served);
  client.join();
  EXPECT_EQ(waited.code, 0) << waited.err;
  EXPECT_EQ(waited.out, expected);
}

}  // namespace
}  // namespace moka
