// Over gRPC: tensors in shared memory, and versions beside each other.
#include "tests/tools/serve/rpc_client.h"
#include "tests/tools/serve/shared_memory.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(GrpcCliTest, TensorsLieInSharedMemory) {
  ServerProcess server(folder_, Words({"--shared-memory"}));
  const RpcClient client(server);
  const OwnMemory memory("rpc", 8192);
  const std::vector<float> row = Rows(1, 0.25F);
  memory.Write(row, 0);
  inference::SystemSharedMemoryRegisterRequest region;
  region.set_name("r");
  region.set_key(memory.key());
  region.set_byte_size(8192);
  ASSERT_TRUE(client.Call(&Stub::SystemSharedMemoryRegister, region).ok());
  region.set_name("far");
  region.set_offset(UINT64_MAX);
  EXPECT_EQ(client.Call(&Stub::SystemSharedMemoryRegister, region).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  inference::SystemSharedMemoryStatusResponse status;
  ASSERT_TRUE(client.Call(&Stub::SystemSharedMemoryStatus, inference::SystemSharedMemoryStatusRequest(), &status).ok());
  ASSERT_EQ(status.regions_size(), 1);
  EXPECT_EQ(status.regions().at("r").byte_size(), 8192U);

  ModelInferRequest request = RequestOf(1);
  const auto place = [](auto& parameters, int64_t bytes, int64_t offset) {
    parameters["shared_memory_region"].set_string_param("r");
    parameters["shared_memory_byte_size"].set_int64_param(bytes);
    parameters["shared_memory_offset"].set_int64_param(offset);
  };
  place(*request.mutable_inputs(0)->mutable_parameters(), 3136, 0);
  ModelInferResponse read;
  const grpc::Status answered = client.Infer(request, &read);
  ASSERT_TRUE(answered.ok()) << answered.error_message();
  ASSERT_EQ(read.raw_output_contents_size(), 1);
  EXPECT_EQ(read.raw_output_contents(0), OverHttp(server, row));
  request.add_outputs()->set_name("prob");
  place(*request.mutable_outputs(0)->mutable_parameters(), 40, 4096);
  ModelInferResponse written;
  ASSERT_TRUE(client.Infer(request, &written).ok());
  ASSERT_EQ(written.raw_output_contents_size(), 1);  // one an output, as clients count them
  EXPECT_EQ(written.raw_output_contents(0), "");
  EXPECT_EQ(written.outputs(0).parameters().at("shared_memory_byte_size").int64_param(), 40);
  EXPECT_EQ(BytesOf(memory.Read(4096, 10)), read.raw_output_contents(0));
  request.mutable_inputs(0)->mutable_parameters()->erase("shared_memory_region");
  EXPECT_THAT(client.Infer(request).error_message(), HasSubstr("belong together"));
  ASSERT_TRUE(client.Call(&Stub::SystemSharedMemoryUnregister, inference::SystemSharedMemoryUnregisterRequest()).ok());
  inference::SystemSharedMemoryStatusRequest asked;
  asked.set_name("r");
  EXPECT_EQ(client.Call(&Stub::SystemSharedMemoryStatus, asked).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcCliTest, VersionsAnswerBesideEachOther) {
  Run();
  for (const char* version : {"1", "2", "3"}) {
    fs::create_directories(folder_ / "several/digits");
    fs::copy(folder_ / "runs/lenet-0001", folder_ / "several/digits" / version,
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  }
  WriteFileAtomically(folder_ / "several/digits/serve.pbtxt",
                      "version_policy { specific { versions: [1, 3] } }\n"
                      "dynamic_batching { priority_levels: 3 default_queue_policy { max_queue_size: 9 } }\n");
  ServerProcess server(folder_, {"several", "--grpc-port", "0"});
  const RpcClient client(server);
  inference::ModelMetadataRequest of_model;
  of_model.set_name("digits");
  inference::ModelMetadataResponse facts;
  ASSERT_TRUE(client.Call(&Stub::ModelMetadata, of_model, &facts).ok());
  EXPECT_THAT(facts.versions(), ElementsAre("1", "3"));
  ModelInferRequest request = RawRequest(Rows(1));
  ModelInferResponse answer;
  ASSERT_TRUE(client.Infer(request, &answer).ok());
  EXPECT_EQ(answer.model_version(), "3");
  request.set_model_version("1");
  ASSERT_TRUE(client.Infer(request, &answer).ok());
  EXPECT_EQ(answer.model_version(), "1");
  request.set_model_version("2");
  EXPECT_EQ(client.Infer(request).error_code(), grpc::StatusCode::NOT_FOUND);
  inference::ModelConfigRequest of_config;
  of_config.set_name("digits");
  inference::ModelConfigResponse config;
  ASSERT_TRUE(client.Call(&Stub::ModelConfig, of_config, &config).ok());
  EXPECT_THAT(config.config().version_policy().specific().versions(), ElementsAre(1, 3));
  EXPECT_EQ(config.config().dynamic_batching().priority_levels(), 3U);
  EXPECT_EQ(config.config().dynamic_batching().default_queue_policy().max_queue_size(), 9U);
  EXPECT_EQ(config.config().instance_group(0).count(), 1);
  inference::ModelStatisticsRequest of_statistics;
  of_statistics.set_name("digits");
  inference::ModelStatisticsResponse statistics;
  ASSERT_TRUE(client.Call(&Stub::ModelStatistics, of_statistics, &statistics).ok());
  ASSERT_EQ(statistics.model_stats_size(), 2);
  EXPECT_EQ(statistics.model_stats(0).inference_count(), 1U);
  inference::RepositoryIndexResponse index;
  ASSERT_TRUE(client.Call(&Stub::RepositoryIndex, inference::RepositoryIndexRequest(), &index).ok());
  EXPECT_EQ(index.models_size(), 2);
}

}  // namespace
}  // namespace moka
