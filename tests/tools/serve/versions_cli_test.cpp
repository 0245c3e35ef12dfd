// Several versions of a model beside each other, chosen by serve.pbtxt; what fails takes nothing away.
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "tests/tools/serve/models_cli_fixture.h"

namespace moka {
namespace {

using testing::HasSubstr;

Json Versions(HttpClient& client) { return Json::parse(client.Ask("GET", "/v2/models/digits").body)["versions"]; }

TEST_F(ModelsCliTest, TheyAnswerBesideEachOther) {
  for (const char* version : {"2", "3", "10"}) Copy(fs::path("beside/digits") / version);
  SetDigits("beside", "version_policy { latest { num_versions: 2 } }\n");
  ServerProcess server(folder_, {"beside", "--allow-load"});
  HttpClient client(server.port());
  const std::string model = "/v2/models/digits";
  EXPECT_EQ(Versions(client), Json({"3", "10"}));
  EXPECT_EQ(Json::parse(client.Ask("GET", model + "/versions/3").body)["versions"], Json({"3", "10"}));
  EXPECT_EQ(Answering(client), "10");
  EXPECT_EQ(Answering(client, model + "/versions/3"), "3");
  EXPECT_EQ(Answering(client, model + "/versions/10"), "10");
  const Reply absent = client.Ask("GET", model + "/versions/2/ready");
  EXPECT_EQ(absent.status, 404);
  EXPECT_THAT(absent.body, HasSubstr("it has 3, 10"));
  EXPECT_EQ(client.Ask("GET", model + "/versions/03").status, 404);
  const Json index = Json::parse(client.Ask("POST", "/v2/repository/index").body);
  ASSERT_EQ(index.size(), 2U);
  EXPECT_EQ(index[0]["version"], "3");
  EXPECT_EQ(index[1]["version"], "10");
  EXPECT_EQ(Json::parse(client.Ask("GET", model + "/config").body)["version_policy"],
            Json::parse(R"({"latest":{"num_versions":2}})"));
  // Each counts its own.
  const Json all = Json::parse(client.Ask("GET", model + "/stats").body)["model_stats"];
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0]["inference_count"], 1);
  EXPECT_EQ(all[1]["inference_count"], 2);
  EXPECT_EQ(Json::parse(client.Ask("GET", model + "/versions/3/stats").body)["model_stats"].size(), 1U);
  const std::string metrics = client.Ask("GET", "/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("nv_inference_count{model=\"digits\",version=\"3\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("nv_inference_count{model=\"digits\",version=\"10\"} 2\n"));
  // One of several models of a client is not two.
  const Outcome asked = Moka(StrCat("client http://127.0.0.1:", int64_t{server.port()}, " --status"));
  EXPECT_EQ(asked.code, 0) << asked.err;
  EXPECT_EQ(client.Ask("POST", "/v2/repository/models/digits/unload").status, 200);
  EXPECT_EQ(Answering(client), "503");
  EXPECT_EQ(Answering(client, model + "/versions/3"), "503");
  EXPECT_EQ(client.Ask("GET", "/v2/health/ready").status, 200);  // nothing that is wanted is missing
  EXPECT_EQ(client.Ask("POST", "/v2/repository/models/digits/load").status, 200);
  EXPECT_EQ(Versions(client), Json({"3", "10"}));
  server.Signal(SIGINT);
  EXPECT_EQ(server.Wait(), 0);
}

TEST_F(ModelsCliTest, ALoadReadsThePolicyAnew) {
  for (const char* version : {"1", "2", "3"}) Copy(fs::path("anew/digits") / version);
  ServerProcess server(folder_, {"anew", "--allow-load"});
  HttpClient client(server.port());
  const auto load = [&] { return client.Ask("POST", "/v2/repository/models/digits/load"); };
  EXPECT_EQ(Versions(client), Json({"3"}));
  SetDigits("anew", "version_policy { all {} }\n");
  EXPECT_EQ(load().status, 200);
  EXPECT_EQ(Versions(client), Json({"1", "2", "3"}));
  // One that is not there fails alone, and nothing ends for it.
  SetDigits("anew", "version_policy { specific { versions: [1, 9] } }\n");
  EXPECT_EQ(load().status, 404);
  EXPECT_EQ(Versions(client), Json({"1", "2", "3"}));
  const Json index = Json::parse(client.Ask("POST", "/v2/repository/index").body);
  ASSERT_EQ(index.size(), 4U);
  EXPECT_EQ(index[3]["version"], "9");
  EXPECT_EQ(index[3]["state"], "UNAVAILABLE");
  EXPECT_NE(index[3]["reason"], "");
  const Reply failed = client.Ask("GET", "/v2/models/digits/versions/9/ready");
  EXPECT_EQ(failed.status, 503);
  EXPECT_THAT(failed.body, HasSubstr("version 9 of model \\\"digits\\\" is not loaded"));
  EXPECT_EQ(client.Ask("GET", "/v2/health/ready").status, 200);  // the model answers
  // Settings that cannot be read end nothing, either.
  SetDigits("anew", "version_polcy { all {} }\n");
  const Reply broken = load();
  EXPECT_EQ(broken.status, 400);
  EXPECT_THAT(broken.body, HasSubstr("serve.pbtxt:1:1"));
  EXPECT_THAT(broken.body, HasSubstr(R"(did you mean \"version_policy\"?)"));
  EXPECT_EQ(Answering(client), "3");
  EXPECT_THAT(client.Ask("POST", "/v2/repository/index").body, HasSubstr("version_polcy"));
  SetDigits("anew", "version_policy { specific { versions: [1] } }\n");
  EXPECT_EQ(load().status, 200);
  EXPECT_EQ(Versions(client), Json({"1"}));
  EXPECT_EQ(Answering(client), "1");
  EXPECT_EQ(Json::parse(client.Ask("POST", "/v2/repository/index").body).size(), 1U);
}

TEST_F(ModelsCliTest, VersionsThatAreMovedInFollowThePolicy) {
  for (const char* version : {"2", "4"}) Copy(fs::path("moved/digits") / version);
  SetDigits("moved", "version_policy { latest { num_versions: 2 } }\n");
  ServerProcess server(folder_, {"moved", "--watch"});
  HttpClient client(server.port());
  const auto move_in = [&](const std::string& version, const Json& then) {
    fs::rename(folder_ / "made", folder_ / "moved/digits" / version);
    for (int i = 0; i < 100 && Versions(client) != then; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(Versions(client), then);
  };
  Copy("made");
  move_in("3", Json({"3", "4"}));
  Copy("made");
  move_in("1", Json({"3", "4"}));  // older than the two
  Copy("made");
  fs::remove_all(folder_ / "made/config");
  move_in("5", Json({"3", "4"}));  // broken
  Copy("made");
  move_in("6", Json({"4", "6"}));
  EXPECT_EQ(Answering(client), "6");
  EXPECT_EQ(client.Ask("GET", "/v2/health/ready").status, 200);
}

TEST_F(ModelsCliTest, FoldersThatAreLeftOutOrRenamedAreTold) {
  Copy("odd/my digits/1");
  Copy("odd/my digits/03");
  fs::create_directories(folder_ / "odd/my digits/2");
  ServerProcess server(folder_, {"odd", "--allow-load", "--watch"});
  HttpClient client(server.port());
  EXPECT_THAT(server.Log(), HasSubstr("my digits is served as model my-digits"));
  EXPECT_THAT(server.Log(), HasSubstr("my digits/2 is left out: it holds no model"));
  EXPECT_THAT(server.Log(), HasSubstr("my digits/03 is left out: versions are called by numbers from 1 on"));
  fs::rename(folder_ / "odd/my digits/03", folder_ / "odd/my digits/3");
  for (int i = 0; i < 200 && client.Ask("GET", "/v2/models/my-digits/versions/3/ready").status != 200; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(client.Ask("GET", "/v2/models/my-digits/versions/3/ready").status, 200) << server.Log();
  Copy("new one/1");
  fs::rename(folder_ / "new one", folder_ / "odd/new one");
  EXPECT_EQ(client.Ask("POST", "/v2/repository/models/new-one/load").status, 200) << server.Log();
}

TEST_F(ModelsCliTest, AVersionThatFailsAtTheStartLeavesOthers) {
  for (const char* version : {"1", "2"}) Copy(fs::path("half/digits") / version);
  SetDigits("half", "version_policy { all {} }\n");
  for (const fs::path& file : ListFiles(folder_ / "half/digits/2/checkpoints", "")) fs::remove(file);
  {
    const ServerProcess server(folder_, {"half"});
    HttpClient client(server.port());
    EXPECT_EQ(Versions(client), Json({"1"}));
    EXPECT_THAT(server.Log(), HasSubstr("a version of digits was not loaded"));
    EXPECT_EQ(Json::parse(client.Ask("POST", "/v2/repository/index").body)[1]["state"], "UNAVAILABLE");
  }
  for (const fs::path& file : ListFiles(folder_ / "half/digits/1/checkpoints", "")) fs::remove(file);
  EXPECT_NE(Moka("serve half --dry-run").code, 0);
  const auto refused = [&](const std::string& text, const std::string& words) {
    SetDigits("half", text);
    const Outcome outcome = Moka("serve half --dry-run");
    EXPECT_EQ(outcome.code, 78) << text;
    EXPECT_THAT(outcome.err, HasSubstr(words));
  };
  refused("version_policy { latest { num_versions: 0 } }", "serve.pbtxt:1:27: num_versions is 0");
  refused("version_policy { specific { versions: [1, 0] } }", "0 is no version");
  refused("version_policy { specific {} }", "specific names no version");
  refused("version_policy { latest {} all {} }", "half/digits/serve.pbtxt:1:");
}

}  // namespace
}  // namespace moka
