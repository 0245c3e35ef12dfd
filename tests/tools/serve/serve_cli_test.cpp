// moka serve as its clients see it: the same answers as moka infer gives, every fault told by its status, and no
// request lost when the server ends.
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "core/checksum.h"
#include "core/error.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/serve/http_client.h"
#include "tests/tools/serve/server_process.h"

namespace moka {
namespace {

using testing::HasSubstr;

class ServeCliTest : public CliTest {
 protected:
  // A digit's file.
  static const fs::path& Digit() {
    static const fs::path digit = [] {
      EXPECT_EQ(Moka("data export data/test drawn --limit 1").code, 0);
      return fs::relative(ListFiles(folder_ / "drawn", ".png").at(0), folder_);
    }();
    return digit;
  }
  static std::string Request(int64_t rows, float value = 0.5F) {
    std::string data;
    for (int64_t i = 0; i < rows * 784; ++i) data += StrCat(i > 0 ? "," : "", static_cast<double>(value));
    return StrCat(R"({"inputs":[{"name":"data","shape":[)", rows, R"(,1,28,28],"datatype":"FP32","data":[)", data,
                  "]}]}");
  }
};

TEST_F(ServeCliTest, AnswersAreThoseOfInfer) {
  Run();
  const Outcome inferred = Moka(StrCat("infer runs/lenet-0001 ", Digit().string(), " --json"));
  ServerProcess server(folder_, {"runs/lenet-0001"});
  HttpClient client(server.port());
  const std::string bytes = ReadFile(folder_ / Digit());
  const std::string model = "/v2/models/lenet-0001";
  std::string name;
  for (const char c : Digit().string()) name += c == '/' ? std::string("%2F") : std::string(1, c);
  const Reply predicted = client.Ask("POST", StrCat(model, "/predict/", name), bytes);
  EXPECT_EQ(predicted.status, 200) << predicted.body;
  EXPECT_EQ(predicted.body, inferred.out);
  // A form, and PUT as curl -T sends it.
  EXPECT_EQ(client.Ask("PUT", StrCat(model, "/predict/", name), bytes).body, inferred.out);
  const std::string form = StrCat("--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"", Digit().string(),
                                  "\"\r\n\r\n", bytes, "\r\n--B--\r\n");
  EXPECT_EQ(client.Ask("POST", model + "/predict", form, "Content-Type: multipart/form-data; boundary=B\r\n").body,
            inferred.out);
  // Tensors: a row alone and among others, as JSON and as bytes.
  const Json one = Json::parse(client.Ask("POST", model + "/infer", Request(1)).body);
  EXPECT_EQ(one["model_name"], "lenet-0001");
  EXPECT_EQ(one["outputs"][0]["shape"], Json({1, 10}));
  const Json five = Json::parse(client.Ask("POST", model + "/infer", Request(5)).body);
  EXPECT_EQ(five["outputs"][0]["shape"], Json({5, 10}));
  for (size_t i = 0; i < 50; ++i) {
    EXPECT_NEAR(five["outputs"][0]["data"][i].get<double>(), one["outputs"][0]["data"][i % 10].get<double>(), 1e-6);
  }
  const std::vector<float> row(784, 0.5F);
  const Reply raw =
      client.Ask("POST", model + "/infer", std::string_view(reinterpret_cast<const char*>(row.data()), 3136),
                 "Inference-Header-Content-Length: 0\r\n");
  ASSERT_EQ(raw.status, 200) << raw.body;
  const size_t json_bytes = std::stoul(raw.Header("Inference-Header-Content-Length"));
  ASSERT_EQ(raw.body.size(), json_bytes + 40);
  float first = 0;
  std::memcpy(&first, raw.body.data() + json_bytes, sizeof(first));
  EXPECT_EQ(first, one["outputs"][0]["data"][0].get<float>());
  // A picture's bytes in place of its numbers.
  const Reply picture = client.Ask("POST", model + "/infer", bytes, "Inference-Header-Content-Length: 0\r\n");
  ASSERT_EQ(picture.status, 200) << picture.body;
  const Json best = Json::parse(inferred.out)[0]["top"][0];
  const size_t at = std::stoul(picture.Header("Inference-Header-Content-Length")) + 4 * best["index"].get<size_t>();
  std::memcpy(&first, picture.body.data() + at, sizeof(first));
  EXPECT_NEAR(static_cast<double>(first), best["score"].get<double>(), 1e-6);
}

// A small net is run by one thread where that gives the same bits; the answers are those of a team.
TEST_F(ServeCliTest, ATeamsAnswersAreThoseOfInfer) {
  Run();
  const Outcome inferred = Moka(StrCat("infer runs/lenet-0001 ", Digit().string(), " --json --threads 2"));
  const ServerProcess server(folder_, {"runs/lenet-0001"}, 0, "2");
  HttpClient client(server.port());
  std::string name;
  for (const char c : Digit().string()) name += c == '/' ? std::string("%2F") : std::string(1, c);
  const std::string path = StrCat("/v2/models/lenet-0001/predict/", name);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.Ask("POST", path, ReadFile(folder_ / Digit())).body, inferred.out);
    EXPECT_EQ(client.Ask("POST", "/v2/models/lenet-0001/infer", Request(7)).status, 200);
  }
}

// Several pictures in one request are rows of one batch; the one that is broken is named.
TEST_F(ServeCliTest, PicturesAreRows) {
  Run();
  ServerProcess server(folder_, {"runs/lenet-0001"});
  HttpClient client(server.port());
  const std::string path = "/v2/models/lenet-0001/infer";
  const std::vector<fs::path> files = ListFiles(folder_ / "drawn", ".png");
  ASSERT_FALSE(files.empty());
  const auto ask = [&](const std::vector<std::string>& pictures) {
    std::string bytes;
    for (const std::string& picture : pictures) {
      const auto size = static_cast<uint32_t>(picture.size());
      bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
      bytes += picture;
    }
    const std::string json = StrCat(R"({"inputs":[{"name":"data","datatype":"BYTES","shape":[)", pictures.size(),
                                    R"(],"parameters":{"binary_data_size":)", bytes.size(), "}}]}");
    return client.Ask("POST", path, json + bytes, StrCat("Inference-Header-Content-Length: ", json.size(), "\r\n"));
  };
  const std::string digit = ReadFile(folder_ / Digit());
  const Reply one = ask({digit});
  ASSERT_EQ(one.status, 200) << one.body;
  const Reply five = ask({digit, digit, digit, digit, digit});
  ASSERT_EQ(five.status, 200) << five.body;
  const Json alone = Json::parse(one.body)["outputs"][0];
  const Json together = Json::parse(five.body)["outputs"][0];
  EXPECT_EQ(together["shape"], Json({5, 10}));
  for (size_t i = 0; i < 50; ++i)
    EXPECT_NEAR(together["data"][i].get<double>(), alone["data"][i % 10].get<double>(), 1e-6);
  const Reply broken = ask({digit, digit.substr(0, 90)});
  EXPECT_EQ(broken.status, 400);
  EXPECT_THAT(broken.body, HasSubstr("picture 1"));
}

TEST_F(ServeCliTest, FaultsHaveTheirStatus) {
  Run();
  ServerProcess server(folder_, {"runs/lenet-0001", "--name", "digits"});
  HttpClient client(server.port());
  const auto expect = [&](const std::string& method, const std::string& path, const std::string& body, int status,
                          const std::string& text) {
    const Reply reply = client.Ask(method, path, body);
    EXPECT_EQ(reply.status, status) << method << " " << path << reply.body;
    EXPECT_THAT(reply.body, HasSubstr(text)) << method << " " << path;
  };
  const std::string infer = "/v2/models/digits/infer";
  expect("POST", "/v2/models/digit/infer", "{}", 404, "did you mean \\\"digits\\\"?");
  expect("POST", "/v2/models/digits/versions/3/infer", "{}", 404, "it has 1");
  expect("GET", "/v2/models/digits/nothing", "", 404, "there is nothing at");
  expect("GET", infer, "", 405, "this address takes POST");
  expect("POST", infer, "{", 400, "the request");
  expect("POST", infer, R"({"inputs":[{"name":"dat","shape":[1],"datatype":"FP32","data":[1]}]})", 400, "it has data");
  expect("POST", infer, R"({"inputs":[{"name":"data","shape":[1,3,2],"datatype":"FP32","data":[1,2,3,4,5,6]}]})", 400,
         "expected [-1,1,28,28]");
  expect("POST", infer, R"({"inputs":[{"name":"data","shape":[1],"datatype":"INT8","data":[1]}]})", 400, "takes FP32");
  std::string wanted = Request(1);
  wanted.insert(wanted.size() - 1, R"(,"outputs":[{"name":"probs"}])");
  expect("POST", infer, wanted, 400, "it has prob");
  expect("POST", "/v2/models/digits/predict", "a text", 415, "its first bytes are 61 20 74 65 78 74");
  expect("POST", "/v2/models/digits/predict", ReadFile(folder_ / Digit()).substr(0, 90), 400, "");
  expect("POST", "/v2/repository/models/digits/unload", "", 403, "--allow-load");
  expect("GET", "/v2/logging", "", 501, "no such setting");
  const Reply drawn =
      client.Ask("POST", "/v2/models/digits/predict", ReadFile(folder_ / Digit()), "Accept: image/png\r\n");
  EXPECT_EQ(drawn.status, 406) << drawn.body;
  // Bytes that are no request, are too large, or stand behind its end.
  const auto raw = [&](const std::string& bytes) {
    HttpClient other(server.port());
    other.Send(bytes);
    return other.Receive().status;
  };
  EXPECT_EQ(raw("GET /v2/%zz HTTP/1.1\r\nHost: here\r\n\r\n"), 400);
  EXPECT_EQ(raw("GET http://here/v2/health/live HTTP/1.1\r\nHost: here\r\n\r\n"), 200);
  EXPECT_EQ(raw("GET HTTPS://here/v2/health/live HTTP/1.1\r\nHost: here\r\n\r\n"), 200);
  EXPECT_EQ(raw("GET http://here/v2/nothing HTTP/1.1\r\nHost: here\r\n\r\n"), 404);
  EXPECT_EQ(raw("nonsense\r\n\r\n"), 400);
  EXPECT_EQ(raw(StrCat("GET /", std::string(9000, 'a'), " HTTP/1.1\r\nHost: here\r\n\r\n")), 414);
  EXPECT_EQ(raw(StrCat("GET / HTTP/1.1\r\nHost: here\r\nA: ", std::string(20000, 'a'), "\r\n\r\n")), 431);
  EXPECT_EQ(raw(StrCat("POST ", infer, " HTTP/1.1\r\nHost: here\r\nContent-Length: 100000000\r\n\r\n")), 413);
  EXPECT_EQ(raw(StrCat("POST ", infer, " HTTP/1.1\r\nHost: here\r\n\r\n")), 411);
  EXPECT_EQ(raw(StrCat("POST ", infer,
                       " HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")),
            400);
  EXPECT_EQ(
      raw(StrCat("POST ", infer, " HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nB: c\r\n\r\n")),
      400);
  EXPECT_EQ(raw("GET /v2 HTTP/1.1\r\nHost: here\r\nHost: there\r\n\r\n"), 400);
  EXPECT_EQ(raw("GET /v2 HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(raw("GET /v2 HTTP/1.0\r\n\r\n"), 200);
  EXPECT_EQ(raw(StrCat("POST ", infer, " HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")), 400);
  EXPECT_EQ(client.Ask("GET", "/v2/health/live").status, 200);
  EXPECT_EQ(Moka("serve runs/lenet-0001 --host 0.0.0.0").code, 78);
  EXPECT_EQ(Moka(StrCat("serve runs/lenet-0001 --port ", static_cast<int64_t>(server.port()))).code, 73);
  EXPECT_EQ(Moka("serve runs/lenet-0001 runs/lenet-0001").code, 64);
  EXPECT_EQ(Moka("serve runs/lenet-0001 --name a/b").code, 64);
  EXPECT_EQ(Moka("serve runs/lenet-0001 --name a,b").code, 64);
  EXPECT_EQ(Moka("serve runs/nothing").code, 66);
}

TEST_F(ServeCliTest, FactsStatisticsAndMetricsCountWhatWasAsked) {
  Run();
  ServerProcess server(folder_, {"runs/lenet-0001"});
  HttpClient client(server.port());
  const std::string model = "/v2/models/lenet-0001";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.Ask("POST", model + "/infer", Request(2)).status, 200);
  EXPECT_EQ(client.Ask("POST", model + "/infer", Request(1), "X-Request-Id: abc\r\n").Header("X-Request-Id"), "abc");
  EXPECT_EQ(client.Ask("POST", model + "/predict", ReadFile(folder_ / Digit()).substr(0, 90)).status, 400);
  const Json facts = Json::parse(client.Ask("GET", model).body);
  EXPECT_EQ(facts["inputs"][0]["shape"], Json({-1, 1, 28, 28}));
  EXPECT_EQ(facts["outputs"][0]["name"], "prob");
  const Json config = Json::parse(client.Ask("GET", model + "/versions/1/config").body);
  EXPECT_EQ(config["batches"][0]["rows"], 1);
  EXPECT_GT(config["batches"][0]["ms"].get<double>(), 0);
  const Json stats = Json::parse(client.Ask("GET", model + "/stats").body)["model_stats"][0];
  EXPECT_EQ(stats["inference_count"], 7);
  EXPECT_EQ(stats["inference_stats"]["fail"]["count"], 1);
  EXPECT_EQ(stats["inference_stats"]["success"]["count"], 4);
  // Two rows are a batch where the machine finds that faster, as most do; else they run one by one.
  int64_t rows = 0;
  int64_t runs = 0;
  int64_t of_one = 0;
  for (const Json& batch : stats["batch_stats"]) {
    const auto count = batch["compute_infer"]["count"].get<int64_t>();
    if (batch["batch_size"] == 1) of_one = count;
    runs += count;
    rows += count * batch["batch_size"].get<int64_t>();
    for (const std::string part : {"compute_input", "compute_infer", "compute_output"}) {
      EXPECT_EQ(batch[part]["count"], count) << part;
      EXPECT_GT(batch[part]["ns"], 0) << part;
    }
  }
  EXPECT_EQ(rows, 7);
  EXPECT_EQ(stats["execution_count"], runs);
  const std::string metrics = client.Ask("GET", "/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("nv_inference_request_success{model=\"lenet-0001\",version=\"1\"} 4\n"));
  EXPECT_THAT(metrics, HasSubstr("nv_inference_count{model=\"lenet-0001\",version=\"1\"} 7\n"));
  EXPECT_THAT(metrics, HasSubstr("moka_request_seconds_bucket{model=\"lenet-0001\",version=\"1\",le=\"+Inf\"} 4\n"));
  const std::string batches = "moka_batch_rows_bucket{model=\"lenet-0001\",version=\"1\",le=";
  EXPECT_THAT(metrics, HasSubstr(StrCat(batches, "\"1\"} ", of_one, "\n")));
  EXPECT_THAT(metrics, HasSubstr(StrCat(batches, "\"2\"} ", runs, "\n")));
  EXPECT_THAT(metrics, HasSubstr(StrCat(batches, "\"+Inf\"} ", runs, "\n")));
  EXPECT_THAT(metrics, HasSubstr("moka_batch_rows_sum{model=\"lenet-0001\",version=\"1\"} 7\n"));
  const Json index = Json::parse(client.Ask("POST", "/v2/repository/index").body);
  EXPECT_EQ(index[0]["state"], "READY");
  EXPECT_EQ(Json::parse(client.Ask("GET", "/openapi.json").body)["openapi"], "3.0.3");
  EXPECT_THAT(client.Ask("GET", "/").body, HasSubstr("<title>moka serve</title>"));
  // Requests behind each other on one connection are answered in order.
  for (int i = 0; i < 4; ++i) client.SendRequest("POST", model + "/infer", Request(i + 1));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Json::parse(client.Receive().body)["outputs"][0]["shape"][0], i + 1);
}

TEST_F(ServeCliTest, TokensSayWhoMayAsk) {
  Run();
  WriteFileAtomically(folder_ / "tokens",
                      StrCat("# who may\nuser:", Sha256("one"), ":user\nboss:", Sha256("two"), ":admin\n"));
  ServerProcess server(folder_, {"runs/lenet-0001", "--token-file", "tokens", "--allow-load"});
  HttpClient client(server.port());
  const std::string model = "/v2/models/lenet-0001";
  const auto status = [&](const std::string& method, const std::string& path, const std::string& token) {
    return client.Ask(method, path, "", token.empty() ? "" : StrCat("Authorization: Bearer ", token, "\r\n")).status;
  };
  EXPECT_EQ(status("GET", model, ""), 401);
  EXPECT_EQ(status("GET", model, "three"), 401);
  EXPECT_EQ(status("GET", model, "one"), 200);
  EXPECT_EQ(status("GET", "/metrics", ""), 401);
  EXPECT_EQ(status("GET", "/", ""), 200);  // the page, which asks for a token
  EXPECT_EQ(status("GET", "/v2/health/live", ""), 200);
  EXPECT_EQ(status("POST", "/v2/repository/models/lenet-0001/load", "one"), 403);
  EXPECT_EQ(status("POST", "/v2/repository/models/lenet-0001/load", "two"), 200);
  WriteFileAtomically(folder_ / "tokens", "user:one:user\n");
  const Outcome bad = Moka("serve runs/lenet-0001 --token-file tokens");
  EXPECT_EQ(bad.code, 65);
  EXPECT_THAT(bad.err, HasSubstr("tokens:1: this is no token"));
  const std::string boss = StrCat("boss:", Sha256("two"), ":admin\n");
  for (const auto& [line, told] :
       {std::pair(StrCat("user:", Sha256("two"), ":user\n"), "this is the token of boss again"),
        std::pair(StrCat(":", Sha256("one"), ":user\n"), "this token is of nobody")}) {
    WriteFileAtomically(folder_ / "tokens", boss + line);
    EXPECT_THAT(Moka("serve runs/lenet-0001 --token-file tokens").err, HasSubstr(StrCat("tokens:2: ", told)));
  }
}

// Many clients at once each get their own answers.
TEST_F(ServeCliTest, ManyClientsAreNotMixedUp) {
  Run();
  ServerProcess server(folder_, {"runs/lenet-0001"});
  const std::string path = "/v2/models/lenet-0001/infer";
  constexpr int kClients = 8;
  std::vector<std::string> alone;
  for (int i = 0; i < kClients; ++i)
    alone.push_back(HttpClient(server.port()).Ask("POST", path, Request(1, 0.1F * static_cast<float>(i))).body);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&, i] {
      HttpClient client(server.port());
      const std::string request = Request(1, 0.1F * static_cast<float>(i));
      const Json expected = Json::parse(alone[static_cast<size_t>(i)])["outputs"][0]["data"];
      for (int k = 0; k < 40; ++k) {
        if (k % 10 == 3) {  // one that leaves
          HttpClient(server.port()).SendRequest("POST", path, request);
          continue;
        }
        const Reply reply = client.Ask("POST", path, request);
        if (reply.status != 200) {
          ++wrong;
          continue;
        }
        const Json data = Json::parse(reply.body)["outputs"][0]["data"];
        for (size_t c = 0; c < 10; ++c) {
          if (std::abs(data[c].get<double>() - expected[c].get<double>()) > 1e-6) ++wrong;
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ServeCliTest, WhatWasAcceptedIsAnsweredWhenItEnds) {
  Run();
  ServerProcess server(folder_, {"runs/lenet-0001", "--grace", "1"});
  const std::string path = "/v2/models/lenet-0001/infer";
  std::atomic<int> answered = 0;
  std::atomic<int> failed = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      const std::string request = Request(4);
      for (;;) {
        HttpClient client(server.port());
        if (!client.is_connected()) return;
        bool is_first = true;  // later the server may close before it sees the request
        for (bool is_open = true; is_open; is_first = false) {
          const Reply reply = client.Ask("POST", path, request);
          if (is_first && reply.status == 0) ++failed;
          is_open = reply.status == 200 && reply.Header("Connection") != "close";
          if (reply.status == 200) ++answered;
          if (reply.status != 200 && reply.status != 0) ++failed;
        }
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  server.Signal(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(HttpClient(server.port()).Ask("GET", "/v2/health/ready").status, 503);
  EXPECT_EQ(HttpClient(server.port()).Ask("POST", path, Request(1)).status, 200);
  EXPECT_EQ(server.Wait(), 0);
  for (std::thread& client : clients) client.join();
  EXPECT_GT(answered, 10);
  EXPECT_EQ(failed, 0);
  EXPECT_THAT(server.Log(), HasSubstr("ending: in 1 s no new requests"));
}

// Requests of which a part has come when the server is to end are read and answered.
TEST_F(ServeCliTest, AHalfSentRequestIsAnsweredWhenItEnds) {
  Run();
  ServerProcess server(folder_, {"runs/lenet-0001", "--grace", "0"});
  const std::string body = Request(1);
  HttpClient half(server.port());
  half.Send(
      StrCat("POST /v2/models/lenet-0001/infer HTTP/1.1\r\nHost: here\r\nContent-Length: ", body.size(), "\r\n\r\n"));
  half.Send(std::string_view(body).substr(0, 1000));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  server.Signal(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  half.Send(std::string_view(body).substr(1000));
  EXPECT_EQ(half.Receive().status, 200);
  EXPECT_EQ(server.Wait(), 0);
}

// A client that has sent its next request already is answered, too: its connection then waits for the net alone, and
// the server's threads are not to leave.
TEST_F(ServeCliTest, APipeliningClientIsAnsweredWhenItEnds) {
  Run();
  ServerProcess server(folder_, {"runs/lenet-0001", "--grace", "0", "--most-rows", "1", "--most-wait", "3600000"});
  const std::string floats(int64_t{10000} * 3136, '\0');
  const std::string json =
      R"({"inputs":[{"name":"data","shape":[10000,1,28,28],"datatype":"FP32","parameters":{"binary_data_size":31360000}}]})";
  HttpClient client(server.port());
  client.SendRequest("POST", "/v2/models/lenet-0001/infer", json + floats,
                     StrCat("Inference-Header-Content-Length: ", json.size(), "\r\n"));
  client.Send("GET /v2 HTTP/1.1\r\nHost: here\r\n");
  server.AwaitRun();
  server.Signal(SIGTERM);
  EXPECT_EQ(client.Receive().status, 200);
  EXPECT_EQ(server.Wait(), 0);
}

// A request that takes long holds up neither one of a higher priority nor the end.
TEST_F(ServeCliTest, LongRequestsGiveWay) {
  Run();
  ServerProcess server(folder_, {"runs/lenet-0001", "--drain", "0.5", "--most-rows", "1", "--most-wait", "3600000"});
  const std::string path = "/v2/models/lenet-0001/infer";
  const std::string floats(int64_t{20000} * 3136, '\0');
  const std::string json =
      R"({"inputs":[{"name":"data","shape":[20000,1,28,28],"datatype":"FP32","parameters":{"binary_data_size":62720000}}]})";
  HttpClient slow(server.port());
  slow.SendRequest("POST", path, json + floats, StrCat("Inference-Header-Content-Length: ", json.size(), "\r\n"));
  server.AwaitRun();
  std::string urgent = Request(1);
  urgent.insert(urgent.size() - 1, R"(,"parameters":{"priority":1})");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(HttpClient(server.port()).Ask("POST", path, urgent).status, 200);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(500));
  server.Signal(SIGINT);
  EXPECT_EQ(slow.Receive().status, 503);
  EXPECT_EQ(server.Wait(), 75);
}

TEST_F(ServeCliTest, ModelsAreLoadedAgainBesideTheirRequests) {
  Run();
  fs::create_directories(folder_ / "models/digits");
  fs::copy(folder_ / "runs/lenet-0001", folder_ / "models/digits/2",
           fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  ServerProcess server(folder_, {"models", "--allow-load"});
  HttpClient client(server.port());
  EXPECT_EQ(Json::parse(client.Ask("GET", "/v2/models/digits").body)["versions"][0], "2");
  EXPECT_EQ(client.Ask("POST", "/v2/repository/models/digits/load").status, 200);
  EXPECT_EQ(client.Ask("POST", "/v2/repository/models/digits/load", R"({"parameters":{"config":"x"}})").status, 400);
  EXPECT_EQ(client.Ask("POST", "/v2/repository/models/digits/unload", "", "Origin: http://elsewhere\r\n").status, 403);
  // A load that fails leaves what was there.
  fs::rename(folder_ / "models/digits/2/config", folder_ / "config");
  EXPECT_NE(client.Ask("POST", "/v2/repository/models/digits/load").status, 200);
  EXPECT_EQ(client.Ask("POST", "/v2/models/digits/infer", Request(1)).status, 200);
  EXPECT_THAT(client.Ask("POST", "/v2/repository/index").body, HasSubstr("READY"));
  EXPECT_EQ(client.Ask("POST", "/v2/repository/models/digits/unload").status, 200);
  EXPECT_EQ(client.Ask("POST", "/v2/models/digits/infer", Request(1)).status, 503);
  EXPECT_EQ(client.Ask("GET", "/v2/health/ready").status, 200);  // nothing that is wanted is missing
  // A newer version is found by the next load.
  fs::rename(folder_ / "config", folder_ / "models/digits/2/config");
  fs::copy(folder_ / "runs/lenet-0001", folder_ / "models/digits/3",
           fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  EXPECT_EQ(client.Ask("POST", "/v2/repository/models/digits/load").status, 200);
  EXPECT_EQ(Json::parse(client.Ask("GET", "/v2/models/digits").body)["versions"][0], "3");
  server.Signal(SIGINT);
  EXPECT_EQ(server.Wait(), 0);
}

// With --watch a version is loaded when it is moved to its place, whole; one that is copied there is not.
TEST_F(ServeCliTest, VersionsThatAreMovedInAreLoaded) {
  Run();
  const auto copy = [&](const fs::path& to) {
    fs::create_directories(to.parent_path());
    fs::copy(folder_ / "runs/lenet-0001", to, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  };
  copy(folder_ / "watched/digits/1");
  fs::create_directories(folder_ / "made");
  ServerProcess server(folder_, {"watched", "--watch", "--allow-load"});
  HttpClient client(server.port());
  const auto version = [&](const std::string& model) -> std::string {
    const Reply reply = client.Ask("GET", StrCat("/v2/models/", model));
    return reply.status == 200 ? Json::parse(reply.body)["versions"][0].get<std::string>() : "";
  };
  const auto becomes = [&](const std::string& model, const std::string& wanted) {
    for (int i = 0; i < 100 && version(model) != wanted; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return version(model) == wanted;
  };
  EXPECT_EQ(version("digits"), "1");
  copy(folder_ / "made/2");
  fs::rename(folder_ / "made/2", folder_ / "watched/digits/2");
  EXPECT_TRUE(becomes("digits", "2"));
  copy(folder_ / "made/broken");
  fs::remove_all(folder_ / "made/broken/config");
  fs::rename(folder_ / "made/broken", folder_ / "watched/digits/3");
  copy(folder_ / "watched/digits/4");  // it may be half written when it is seen
  copy(folder_ / "made/more/1");
  fs::rename(folder_ / "made/more", folder_ / "watched/more");
  EXPECT_TRUE(becomes("more", "1"));
  EXPECT_EQ(version("digits"), "2");
  EXPECT_EQ(client.Ask("GET", "/v2/health/ready").status, 200);
  EXPECT_THAT(server.Log(), HasSubstr("watched/digits/4 was made where it is and may be half written"));
  // Who asks for it has it, and models that have come since the start, too.
  EXPECT_EQ(client.Ask("POST", "/v2/repository/models/digits/load").status, 200);
  EXPECT_EQ(version("digits"), "4");
  copy(folder_ / "watched/third/7");
  EXPECT_EQ(client.Ask("POST", "/v2/repository/models/third/load").status, 200);
  EXPECT_EQ(version("third"), "7");
  EXPECT_EQ(client.Ask("POST", "/v2/repository/models/..%2Fwatched/load").status, 404);
  // A closed terminal ends it as Ctrl-C does.
  server.Signal(SIGHUP);
  EXPECT_EQ(server.Wait(), 0);
  const Outcome outcome = Moka("serve runs/lenet-0001 --watch");
  EXPECT_EQ(outcome.code, 64);
  EXPECT_THAT(outcome.err, HasSubstr("--watch is of folders"));
}

}  // namespace
}  // namespace moka
