// moka serve with serve.pbtxt beside a model: what is in force, and what is refused.
#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <thread>

#include "tests/tools/serve/models_cli_fixture.h"

namespace moka {
namespace {

using testing::HasSubstr;

TEST_F(ModelsCliTest, ConfigShowsWhatIsInForce) {
  Set(R"(
    max_batch_size: 6
    dynamic_batching {
      preferred_batch_size: 3
      priority_levels: 4
      default_queue_policy { default_timeout_microseconds: 9000000 max_queue_size: 5 }
      priority_queue_policy { key: 1 value { max_queue_size: 2 } }
    }
    model_warmup { batch_size: 5 count: 2 }
  )");
  const ServerProcess server(folder_, {"runs/lenet-0001"});
  HttpClient client(server.port());
  const Json config = Json::parse(client.Ask("GET", kModel + "/config").body);
  EXPECT_EQ(config["max_batch_size"], 6);
  std::vector<int64_t> rows;
  for (const Json& batch : config["batches"]) rows.push_back(batch["rows"]);
  EXPECT_EQ(rows, (std::vector<int64_t>{1, 3, 6}));
  const Json& batching = config["dynamic_batching"];
  EXPECT_EQ(batching["preferred_batch_size"], Json({3}));
  EXPECT_EQ(batching["priority_levels"], 4);
  EXPECT_EQ(batching["default_priority_level"], 2);
  EXPECT_EQ(batching["default_queue_policy"]["default_timeout_microseconds"], 9000000);
  EXPECT_EQ(batching["default_queue_policy"]["max_queue_size"], 5);
  EXPECT_EQ(batching["priority_queue_policy"]["1"]["max_queue_size"], 2);
  EXPECT_EQ(config["model_warmup"][0]["batch_size"], 5);
  EXPECT_EQ(config["instance_group"][0]["count"], 1);
  EXPECT_EQ(client.Ask("POST", kInfer, Request(13)).status, 200);  // in parts
  const Reply low = client.Ask("POST", kInfer, Request(1, R"(,"parameters":{"priority":5})"));
  EXPECT_EQ(low.status, 400);
  EXPECT_THAT(low.body, HasSubstr("the lowest is 4"));
  EXPECT_EQ(client.Ask("POST", kInfer, Request(1, R"(,"parameters":{"priority":4})")).status, 200);
}

// A batch that is not full waits for others, and a full one does not.
TEST_F(ModelsCliTest, ABatchWaitsForOthers) {
  Set("dynamic_batching { preferred_batch_size: 4 max_queue_delay_microseconds: 700000 "
      "default_queue_policy { max_queue_size: 3 } }");
  const ServerProcess server(folder_, {"runs/lenet-0001"});
  HttpClient first(server.port());
  HttpClient second(server.port());
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  const auto begin = Clock::now();
  first.SendRequest("POST", kInfer, Request(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(350));
  const auto middle = Clock::now();
  second.SendRequest("POST", kInfer, Request(1));
  EXPECT_EQ(second.Receive().status, 200);
  EXPECT_LT(since(middle), 0.65);  // with the first, whose time was over
  EXPECT_EQ(first.Receive().status, 200);
  EXPECT_GE(since(begin), 0.69);
  const auto full = Clock::now();
  EXPECT_EQ(HttpClient(server.port()).Ask("POST", kInfer, Request(4)).status, 200);
  EXPECT_LT(since(full), 0.6);
  // A request that may wait for less is begun in time.
  const auto hurried = Clock::now();
  EXPECT_EQ(HttpClient(server.port()).Ask("POST", kInfer, Request(1, R"(,"parameters":{"timeout":100000})")).status,
            200);
  EXPECT_LT(since(hurried), 0.6);
  // Three wait at most.
  std::vector<std::unique_ptr<HttpClient>> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.push_back(std::make_unique<HttpClient>(server.port()));
    waiting.back()->SendRequest("POST", kInfer, Request(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  const Reply one_more = HttpClient(server.port()).Ask("POST", kInfer, Request(1));
  EXPECT_EQ(one_more.status, 503) << one_more.body;
  for (const auto& one : waiting) EXPECT_EQ(one->Receive().status, 200);
}

TEST_F(ModelsCliTest, TimesToWaitAreTheModels) {
  Set("dynamic_batching { default_queue_policy { allow_timeout_override: false } }");
  {
    const ServerProcess server(folder_, {"runs/lenet-0001"});
    HttpClient client(server.port());
    EXPECT_EQ(client.Ask("POST", kInfer, Request(1, R"(,"parameters":{"timeout":1})")).status, 200);
  }
  // An idle server begins a row at once, so that it waits for others here.
  Set("dynamic_batching { max_queue_delay_microseconds: 300000 default_queue_policy { default_timeout_microseconds: 1 "
      "} "
      "}");
  const ServerProcess server(folder_, {"runs/lenet-0001"});
  HttpClient client(server.port());
  const int status = client.Ask("POST", kInfer, Request(1)).status;
  EXPECT_EQ(status, 504);
  const int longer = client.Ask("POST", kInfer, Request(1, R"(,"parameters":{"timeout":9000000})")).status;
  EXPECT_EQ(longer, 504);
}

TEST_F(ModelsCliTest, WhatTheModelCannotDoIsRefused) {
  const auto refused = [&](const std::string& text, const std::string& words, const std::string& flags = {}) {
    Set(text);
    const Outcome outcome = Moka(StrCat("serve runs/lenet-0001 --dry-run ", flags));
    EXPECT_EQ(outcome.code, 78) << text;
    EXPECT_THAT(outcome.err, HasSubstr(words)) << text;
    EXPECT_THAT(outcome.err, HasSubstr("runs/lenet-0001/serve.pbtxt:1:"));
  };
  refused("max_batch_siz: 4", "did you mean \"max_batch_size\"?");
  refused("sequence_batching { oldest {} }", "keeps nothing from one run to the next");
  refused("instance_group { kind: KIND_GPU }", "this server computes on CPU", "--device=cpu");
  Set("instance_group { kind: KIND_CPU }");
  EXPECT_EQ(Moka("serve runs/lenet-0001 --dry-run --device=cpu").code, 0);
}

TEST_F(ModelsCliTest, BrokenSettingsLeaveTheOldOnes) {
  Set("max_batch_size: 2");
  const ServerProcess server(folder_, {"runs/lenet-0001", "--allow-load"});
  HttpClient client(server.port());
  const auto load = [&] { return client.Ask("POST", "/v2/repository/models/lenet-0001/load"); };
  const auto most = [&] { return Json::parse(client.Ask("GET", kModel + "/config").body)["max_batch_size"]; };
  EXPECT_EQ(most(), 2);
  Set("max_batch_size: 4 }");
  const Reply broken = load();
  EXPECT_EQ(broken.status, 400) << broken.body;
  EXPECT_THAT(broken.body, HasSubstr("serve.pbtxt:1:"));
  EXPECT_EQ(client.Ask("POST", kInfer, Request(1)).status, 200);
  EXPECT_EQ(most(), 2);
  Set("max_batch_size: 1");
  EXPECT_EQ(load().status, 200);
  EXPECT_EQ(most(), 1);
}

}  // namespace
}  // namespace moka
