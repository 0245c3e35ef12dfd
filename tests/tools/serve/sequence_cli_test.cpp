// Recurrent nets as moka serve runs them: what one client's request left behind reaches no other's, and the parts of a
// sequence give what all of its steps at once give.
#include <gmock/gmock.h>

#include <thread>
#include <vector>

#include "core/error.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/serve/http_client.h"
#include "tests/tools/serve/server_process.h"
#include "tools/serve/model/sequences.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kLayers = R"(
layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "h" recurrent_param { num_output: 4
  weight_filler { type: "uniform" min: -0.5 max: 0.5 } bias_filler { type: "constant" } } }
layer { name: "y" type: "InnerProduct" bottom: "h" top: "y" inner_product_param { num_output: 2 axis: 2
  weight_filler { type: "uniform" min: -1 max: 1 } } }
)";
constexpr const char* kInputs = R"(name: "steps"
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 1 dim: 3 } } }
layer { name: "cont" type: "Input" top: "cont" input_param { shape { dim: 1 dim: 1 } } }
)";
constexpr const char* kTraining = R"(name: "steps"
layer { name: "data" type: "DummyData" top: "x" top: "cont" top: "t" dummy_data_param {
  shape { dim: 1 dim: 1 dim: 3 } shape { dim: 1 dim: 1 } shape { dim: 1 dim: 1 dim: 2 }
  data_filler { type: "uniform" min: -1 max: 1 } data_filler { type: "constant" value: 1 }
  data_filler { type: "uniform" min: -1 max: 1 } } }
)";
constexpr const char* kLoss = R"(layer { name: "loss" type: "EuclideanLoss" bottom: "y" bottom: "t" top: "loss" }
)";

class SequenceCliTest : public CliTest {
 protected:
  // A folder with the net and its weights.
  static std::vector<std::string> Served() {
    static const std::string weights = [] {
      fs::create_directories(folder_ / "steps");
      WriteFileAtomically(folder_ / "steps/deploy.prototxt", StrCat(kInputs, kLayers));
      WriteFileAtomically(folder_ / "steps/model.prototxt", "name: \"steps\" task: REGRESS\n");
      WriteFileAtomically(folder_ / "steps/train.prototxt", StrCat(kTraining, kLayers, kLoss));
      WriteFileAtomically(folder_ / "steps/solver.prototxt",
                          "net: \"train.prototxt\" base_lr: 0.1 lr_policy: \"fixed\" max_iter: 2 random_seed: 5\n");
      const Outcome trained = Moka("train steps/solver.prototxt --quiet");
      EXPECT_EQ(trained.code, 0) << trained.err;
      return std::string("runs/steps-0001/checkpoints/iter_0000002.safetensors");
    }();
    return {"steps", "--weights", weights};
  }
  // So many steps, the first of them step `first`; `parameters` of the request.
  static std::string Steps(int first, int count, const std::string& parameters = {}) {
    std::string x;
    std::string cont;
    for (int i = 0; i < count; ++i) {
      const double step = first + i;
      for (int k = 0; k < 3; ++k) x += StrCat(x.empty() ? "" : ",", 0.1 * step - 0.3 * k);
      cont += cont.empty() ? "1" : ",1";
    }
    return StrCat(R"({"inputs":[{"name":"x","shape":[)", int64_t{count}, R"(,1,3],"datatype":"FP32","data":[)", x,
                  R"(]},{"name":"cont","shape":[)", int64_t{count}, R"(,1],"datatype":"FP32","data":[)", cont, "]}]",
                  parameters.empty() ? "" : StrCat(",\"parameters\":{", parameters, "}"), "}");
  }
  static std::vector<double> Values(const Reply& reply) {
    EXPECT_EQ(reply.status, 200) << reply.body;
    if (reply.status != 200) return {};
    return Json::parse(reply.body)["outputs"][0]["data"].get<std::vector<double>>();
  }
  static constexpr const char* kPath = "/v2/models/steps/infer";
};

TEST_F(SequenceCliTest, RequestsAloneBeginWithZeros) {
  const ServerProcess server(folder_, Served());
  HttpClient client(server.port());
  const std::vector<double> first = Values(client.Ask("POST", kPath, Steps(0, 3)));
  ASSERT_EQ(first.size(), 6U);
  EXPECT_NE(first[0], first[2]);
  EXPECT_EQ(Values(client.Ask("POST", kPath, Steps(0, 3))), first);
  EXPECT_EQ(Values(client.Ask("POST", kPath, Steps(0, 1))), std::vector(first.begin(), first.begin() + 2));
}

TEST_F(SequenceCliTest, PartsOfASequenceGiveWhatTheWholeGives) {
  const ServerProcess server(folder_, Served());
  HttpClient client(server.port());
  const std::vector<double> whole = Values(client.Ask("POST", kPath, Steps(0, 6)));
  ASSERT_EQ(whole.size(), 12U);
  // Two of them by turns, one called by a number, and a request of neither between them.
  const auto ask = [&](int first, int count, const std::string& id, const std::string& more) {
    return Values(client.Ask("POST", kPath, Steps(first, count, StrCat("\"sequence_id\":", id, more))));
  };
  const auto part = [&](int first, int count) {
    return std::vector(whole.begin() + 2 * first, whole.begin() + 2 * (first + count));
  };
  const std::string start = ",\"sequence_start\":true";
  const std::string end = ",\"sequence_end\":true";
  EXPECT_EQ(ask(0, 2, "7", start), part(0, 2));
  EXPECT_EQ(ask(0, 1, "\"b\"", start), part(0, 1));
  EXPECT_EQ(Values(client.Ask("POST", kPath, Steps(0, 6))), whole);
  EXPECT_EQ(ask(2, 3, "7", ""), part(2, 3));
  EXPECT_EQ(ask(1, 5, "\"b\"", end), part(1, 5));
  EXPECT_EQ(ask(5, 1, "7", end), part(5, 1));
  EXPECT_EQ(ask(0, 2, "7", start), part(0, 2));  // the same name begins anew
}

// Long requests of many sequences at once give way to each other between their steps, and are not mixed up.
TEST_F(SequenceCliTest, SequencesAtOnceAreNotMixedUp) {
  const ServerProcess server(folder_, Served());
  const std::vector<double> whole = Values(HttpClient(server.port()).Ask("POST", kPath, Steps(0, 40)));
  std::vector<std::vector<double>> got(6);
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back([&, i] {
      HttpClient client(server.port());
      std::vector<double>& all = got[static_cast<size_t>(i)];
      for (int at = 0; at < 40; at += 4 + i) {
        const int count = std::min(4 + i, 40 - at);
        const std::string parameters = StrCat("\"sequence_id\":", int64_t{i + 1}, ",\"priority\":", int64_t{i + 1},
                                              at == 0 ? ",\"sequence_start\":true" : "");
        const std::vector<double> part = Values(client.Ask("POST", kPath, Steps(at, count, parameters)));
        all.insert(all.end(), part.begin(), part.end());
      }
    });
  }
  for (std::thread& client : clients) client.join();
  for (const std::vector<double>& all : got) EXPECT_EQ(all, whole);
}

TEST_F(SequenceCliTest, WrongPartsAreRefused) {
  Run();
  const ServerProcess server(folder_, [] {
    std::vector<std::string> words = Served();
    words.insert(words.end(), {"--name", "steps"});
    return words;
  }());
  HttpClient client(server.port());
  const auto expect = [&](const std::string& parameters, const std::string& text) {
    const Reply reply = client.Ask("POST", kPath, Steps(0, 1, parameters));
    EXPECT_EQ(reply.status, 400) << parameters;
    EXPECT_THAT(reply.body, HasSubstr(text)) << parameters;
  };
  expect(R"("sequence_id":5)", "sequence 5 has not begun");
  expect(R"("sequence_id":0)", "names no sequence");
  expect(R"("sequence_id":"")", "names no sequence");
  expect(R"("sequence_id":1.5)", "a whole number or a text");
  expect(R"("sequence_start":true)", "sequence_id says which");
  expect(R"("sequence_id":5,"sequence_begin":true)", "unknown field");
  const Json config = Json::parse(client.Ask("GET", "/v2/models/steps/config").body);
  EXPECT_EQ(config["sequence_batching"]["max_sequence_idle_microseconds"], 60'000'000);
  const ServerProcess digits(folder_, {"runs/lenet-0001"});
  const Reply none = HttpClient(digits.port())
                         .Ask(
                             "POST", "/v2/models/lenet-0001/infer",
                             R"({"inputs":[{"name":"data","shape":[1,1,28,28],"datatype":"FP32","data":[)" +
                                 [] {
                                   std::string zeros = "0";
                                   for (int i = 1; i < 784; ++i) zeros += ",0";
                                   return zeros;
                                 }() +
                                 R"(]}],"parameters":{"sequence_id":1,"sequence_start":true}})");
  EXPECT_EQ(none.status, 400);
  EXPECT_THAT(none.body, HasSubstr("keeps nothing from one request to the next"));
}

TEST(SequencesTest, IdleOnesAreForgottenAndManyRefused) {
  Sequences sequences;
  const auto now = Sequences::Clock::now();
  EXPECT_THAT(sequences.Begin({.id = "a", .starts = true}, now), IsEmpty());
  sequences.End({.id = "a"}, {1, 2}, now);
  EXPECT_THAT(sequences.Begin({.id = "a"}, now + SequenceLimits().idle), ElementsAre(1, 2));
  EXPECT_THROW(sequences.Begin({.id = "a"}, now + SequenceLimits().idle + std::chrono::seconds(1)), Error);
  EXPECT_EQ(sequences.size(), 0);
  for (int i = 0; i < SequenceLimits().most; ++i)
    (void)sequences.Begin({.id = StrCat(int64_t{i}), .starts = true}, now);
  EXPECT_THROW(sequences.Begin({.id = "more", .starts = true}, now), Error);
  sequences.End({.id = "3", .ends = true}, {}, now);
  EXPECT_THAT(sequences.Begin({.id = "more", .starts = true}, now), IsEmpty());
}

}  // namespace
}  // namespace moka
