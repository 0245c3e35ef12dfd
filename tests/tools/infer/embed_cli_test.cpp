// Vectors of words and pictures from a trained net, and what lies nearest, by numbers that were worked out by hand.
#include <gmock/gmock.h>

#include "data/image/image.h"
#include "proto/moka.pb.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/serve/http_client.h"
#include "tests/tools/serve/server_process.h"

namespace moka {
namespace {

using testing::HasSubstr;

class EmbedCli : public CliTest {
 protected:
  // FOLDER/net.prototxt of a model that embeds, and FOLDER/w.caffemodel with one layer's first parameter.
  static void WriteModel(const std::string& name, const std::string& net, const std::string& layer,
                         const std::vector<int64_t>& shape, const std::vector<float>& values) {
    const fs::path folder = folder_ / name;
    fs::create_directories(folder);
    WriteFileAtomically(folder / "net.prototxt", net);
    WriteFileAtomically(folder / "model.prototxt", StrCat("name: \"", name, "\" task: EMBED\n"));
    NetParameter weights;
    LayerParameter* of = weights.add_layer();
    of->set_name(layer);
    BlobProto* blob = of->add_blobs();
    for (const int64_t dim : shape) blob->mutable_shape()->add_dim(dim);
    for (const float value : values) blob->add_data(value);
    WriteFileAtomically(folder / "w.caffemodel", weights.SerializeAsString());
  }
  static std::string Infer(const std::string& name, const std::string& more) {
    return StrCat("infer --model=", name, "/net.prototxt --weights=", name, "/w.caffemodel ", more);
  }
  static void WriteWinds() {
    WriteFileAtomically(folder_ / "words.txt", "<pad>\n<s>\n</s>\n<unk>\nnorth\nsouth\neast\nleeward\n");
    WriteFileAtomically(folder_ / "text.txt", "north south east leeward\n");
    WriteModel("winds", R"(
layer {
  name: "text" type: "SkipGramData" top: "center" top: "words" top: "is_near" data_param { batch_size: 2 }
  skip_gram_data_param { output: CENTER output: WORDS output: IS_NEAR source: "text.txt" vocabulary: "words.txt" window: 1 negatives: 1 }
}
layer {
  name: "vectors" type: "Embed" bottom: "center" top: "vector"
  embed_param { input_dim: 8 num_output: 2 bias_term: false }
})",
               "vectors", {8, 2}, {9, 9, 9, 9, 9, 9, 9, 9, 2, 0, -3, 0, 0, 1, 3, 4});
  }
};

TEST_F(EmbedCli, WordsHaveNeighborsByTheCosine) {
  WriteWinds();
  const Outcome shown = Moka(Infer("winds", "north leeward --top 2"));
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(shown.out,
            "north\n  0.6000 - \"leeward\"\n  0.0000 - \"east\"\n"
            "leeward\n  0.8000 - \"east\"\n  0.6000 - \"north\"\n");
  const Json json = Json::parse(Moka(Infer("winds", "north --json")).out);
  EXPECT_EQ(json.at(0).at("word"), "north");
  EXPECT_EQ(json.at(0).at("vector"), Json({2, 0}));
  ASSERT_EQ(json.at(0).at("nearest").size(), 3U);  // neither itself nor the marks
  EXPECT_EQ(json.at(0).at("nearest").at(2).at("word"), "south");
  EXPECT_NEAR(json.at(0).at("nearest").at(2).at("cosine").get<double>(), -1, 1e-7);
}

TEST_F(EmbedCli, AModelWithoutADeployNetIsReadFromTheNetItIsTrainedBy) {
  WriteWinds();
  fs::rename(folder_ / "winds/net.prototxt", folder_ / "winds/train_val.prototxt");
  const Outcome shown = Moka("infer winds --weights=winds/w.caffemodel east --top 1");
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(shown.out, "east\n  0.8000 - \"leeward\"\n");
  fs::remove(folder_ / "winds/train_val.prototxt");
  const Outcome none = Moka("infer winds --weights=winds/w.caffemodel east");
  EXPECT_EQ(none.code, 66);
  EXPECT_THAT(none.err, HasSubstr("winds holds no deploy.prototxt"));
}

TEST_F(EmbedCli, AWordThatIsNotThereIsSaid) {
  WriteWinds();
  const Outcome unknown = Moka(Infer("winds", "nort"));
  EXPECT_EQ(unknown.code, 64);
  EXPECT_THAT(unknown.err, HasSubstr("the net does not know the word \"nort\""));
  EXPECT_THAT(unknown.err, HasSubstr("did you mean \"north\"?"));
  EXPECT_EQ(unknown.out, "");
  const Outcome none = Moka(Infer("winds", ""));
  EXPECT_EQ(none.code, 64);
  EXPECT_THAT(none.err, HasSubstr("missing argument: at least one word"));
  EXPECT_EQ(Moka(Infer("winds", "--dry-run")).code, 0);
}

// A server answers a text of words as moka infer does words of a command line.
TEST_F(EmbedCli, WordsAreServed) {
  WriteWinds();
  fs::rename(folder_ / "winds/net.prototxt", folder_ / "winds/train_val.prototxt");
  const ServerProcess server(folder_, {"winds", "--weights", "winds/w.caffemodel"});
  HttpClient client(server.port());
  const Reply reply = client.Ask("POST", "/v2/models/winds/predict", "north\n leeward");
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.body, Moka("infer winds --weights winds/w.caffemodel north leeward --json").out);
  WriteFileAtomically(folder_ / "asked.txt", "north\nleeward\n");
  const std::string ask = StrCat("client http://127.0.0.1:", int64_t{server.port()}, " asked.txt");
  EXPECT_EQ(Moka(StrCat(ask, " --json")).out, reply.body);
  EXPECT_EQ(Moka(ask).out, Moka("infer winds --weights winds/w.caffemodel north leeward").out);
  const Reply unknown = client.Ask("POST", "/v2/models/winds/predict", "nort");
  EXPECT_EQ(unknown.status, 400);
  EXPECT_THAT(unknown.body, HasSubstr("did you mean \\\"north\\\"?"));
  EXPECT_EQ(client.Ask("POST", "/v2/models/winds/predict", " ").status, 400);
}

TEST_F(EmbedCli, ARunHasItsWordsWithIt) {
  WriteWinds();
  const Outcome trained =
      Moka(StrCat("train '", MOKA_SOURCE_DIR, "/models/word2vec' max_iter=1 --quiet ",
                  "'layer[text].skip_gram_data_param.source=[\"text.txt\"]' ",
                  "layer[text].skip_gram_data_param.vocabulary=words.txt ",
                  "layer[vectors].embed_param.input_dim=8 layer[contexts].embed_param.input_dim=8"));
  ASSERT_EQ(trained.code, 0) << trained.err;
  fs::remove(folder_ / "words.txt");
  const Outcome shown = Moka("infer runs/latest south --top 1 --json");
  ASSERT_EQ(shown.code, 0) << shown.err;
  const Json json = Json::parse(shown.out);
  EXPECT_EQ(json.at(0).at("word"), "south");
  EXPECT_EQ(json.at(0).at("vector").size(), 100U);
}

TEST_F(EmbedCli, PicturesHaveNeighborsByTheDistance) {
  // The first and the last of four pixels.
  WriteModel("corners", R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 1 dim: 2 dim: 2 } } }
layer { name: "pick" type: "InnerProduct" bottom: "data" top: "corners" inner_product_param { num_output: 2 bias_term: false } })",
             "pick", {2, 4}, {1, 0, 0, 0, 0, 0, 0, 1});
  fs::create_directories(folder_ / "shown");
  WriteFileAtomically(folder_ / "shown/a.png", EncodePng(Image{2, 2, 1, {10, 77, 78, 20}}));
  WriteFileAtomically(folder_ / "shown/b.png", EncodePng(Image{2, 2, 1, {10, 1, 2, 32}}));
  WriteFileAtomically(folder_ / "shown/c.png", EncodePng(Image{2, 2, 1, {13, 3, 4, 24}}));
  for (const char* batch : {"1", "2", "3"}) {
    const Outcome shown = Moka(Infer("corners", StrCat("shown --top 1 --batch ", batch)));
    ASSERT_EQ(shown.code, 0) << shown.err;
    EXPECT_EQ(shown.out,
              "shown/a.png: [2] 10.0000 20.0000\n  5.0000 - shown/c.png\n"
              "shown/b.png: [2] 10.0000 32.0000\n  8.5440 - shown/c.png\n"
              "shown/c.png: [2] 13.0000 24.0000\n  5.0000 - shown/a.png\n");
  }
  const Json json = Json::parse(Moka(Infer("corners", "shown --json")).out);
  ASSERT_EQ(json.size(), 3U);
  EXPECT_EQ(json.at(1).at("vector"), Json({10, 32}));
  EXPECT_EQ(json.at(1).at("nearest").at(1).at("file"), "shown/a.png");
  EXPECT_EQ(json.at(1).at("nearest").at(1).at("distance"), 12);
}

}  // namespace
}  // namespace moka
