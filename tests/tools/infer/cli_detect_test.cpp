// moka infer for detection nets: boxes in pixels of the picture, drawn on it, by score. The net has four default boxes,
// a quarter of the picture each, and its score of a box is how red the quarter is.
#include <cmath>

#include "data/image/drawing.h"
#include "data/image/image.h"
#include "data/records/lmdb_file.h"
#include "proto/moka.pb.h"
#include "proto/record.pb.h"
#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

class DetectCliTest : public CliTest {
 protected:
  void SetUp() override {
    picture_.Resize(32, 48, 3);
    for (int64_t y = 24; y < 48; ++y) {
      for (int64_t x = 0; x < 16; ++x) picture_.pixels[static_cast<size_t>((y * 32 + x) * 3 + 2)] = 200;
    }
    fs::create_directories(folder_ / "pictures");
    WriteFileAtomically(folder_ / "pictures/red.png", EncodePng(picture_));
    fs::create_directories(folder_ / "detector");
    WriteFileAtomically(folder_ / "detector/deploy.prototxt", kNet);
    WriteFileAtomically(folder_ / "detector/model.prototxt",
                        "name: \"detector\" task: DETECT detection { score: 0.6 }");
    WriteFileAtomically(folder_ / "detector/labels.txt", "none\nred thing\n");
    WriteWeights();
  }

  static constexpr const char* kNet = R"(
name: "detector"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 16 dim: 16 } } }
layer {
  name: "loc" type: "Convolution" bottom: "data" top: "loc"
  convolution_param { num_output: 4 kernel_size: 8 stride: 8 bias_term: false }
}
layer {
  name: "conf" type: "Convolution" bottom: "data" top: "conf"
  convolution_param { num_output: 2 kernel_size: 8 stride: 8 bias_term: false }
}
layer { name: "loc_last" type: "Permute" bottom: "loc" top: "loc_last" permute_param { order: 0 order: 2 order: 3 order: 1 } }
layer { name: "loc_flat" type: "Flatten" bottom: "loc_last" top: "loc_flat" }
layer {
  name: "conf_last" type: "Permute" bottom: "conf" top: "conf_last" permute_param { order: 0 order: 2 order: 3 order: 1 }
}
layer { name: "conf_soft" type: "Softmax" bottom: "conf_last" top: "conf_soft" softmax_param { axis: 3 } }
layer { name: "conf_flat" type: "Flatten" bottom: "conf_soft" top: "conf_flat" }
layer { name: "prior" type: "PriorBox" bottom: "loc" bottom: "data" top: "prior" prior_box_param { min_size: 8 } }
layer {
  name: "detections" type: "DetectionOutput" bottom: "loc_flat" bottom: "conf_flat" bottom: "prior" top: "detections"
  detection_output_param {
    num_classes: 2 code_type: CENTER_SIZE nms_param { nms_threshold: 0.45 } keep_top_k: 10 confidence_threshold: 0.01
  }
}
)";

  // Places are those of the default boxes, moved to the right by 0.08 pixels for each step of the mean blue; class 1 is
  // a hundredth of the mean red.
  static void WriteWeights() {
    constexpr int kArea = 64;
    NetParameter weights;
    for (const auto& [name, outputs] : {std::pair{"loc", 4}, std::pair{"conf", 2}}) {
      LayerParameter& layer = *weights.add_layer();
      layer.set_name(name);
      layer.set_type("Convolution");
      BlobProto& blob = *layer.add_blobs();
      for (const int dim : {outputs, 3, 8, 8}) blob.mutable_shape()->add_dim(dim);
      for (int i = 0; i < outputs * 3 * kArea; ++i) {
        const bool is_red_of_class_1 = outputs == 2 && i / kArea == 5;
        const bool is_blue_of_x = outputs == 4 && i / kArea == 0;
        blob.add_data(is_red_of_class_1 ? 0.01F / kArea : is_blue_of_x ? 0.05F / kArea : 0);
      }
    }
    WriteFileAtomically(folder_ / "detector/net.caffemodel", weights.SerializeAsString());
  }

  static std::string Infer() { return "infer detector --weights detector/net.caffemodel pictures "; }

  Image picture_;
};

TEST_F(DetectCliTest, BoxesAreInPixelsOfThePictureAndDrawnOnIt) {
  const Outcome found = Moka(Infer() + "--json --out drawn");
  ASSERT_EQ(found.code, 0) << found.err;
  const Json picture = Json::parse(found.out)[0];
  EXPECT_EQ(picture.at("file"), "pictures/red.png");
  EXPECT_EQ(picture.at("picture"), "drawn/red_boxes.png");
  ASSERT_EQ(picture.at("boxes").size(), 1U) << found.out;
  const Json box = picture.at("boxes")[0];
  EXPECT_EQ(box.at("label"), "red thing");
  EXPECT_EQ(box.at("index"), 1);
  EXPECT_NEAR(box.at("score").get<double>(), std::exp(2.0) / (1 + std::exp(2.0)), 1e-5);
  const std::vector<double> edges = box.at("box");
  const std::vector<double> expected = {0, 24, 16, 48};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(edges[i], expected[i], 1e-4) << i;

  Image drawn;
  ImageDecoder().Decode(ReadFile(folder_ / "drawn/red_boxes.png"), {}, drawn);
  ASSERT_EQ(drawn.width, 32);
  ASSERT_EQ(drawn.height, 48);
  const auto pixel = [&](int64_t x, int64_t y) {
    const size_t i = static_cast<size_t>((y * 32 + x) * 3);
    return std::vector<int>{drawn.pixels[i], drawn.pixels[i + 1], drawn.pixels[i + 2]};
  };
  const Color color = ColorOf(1);
  EXPECT_EQ(pixel(15, 40), (std::vector<int>{color.blue, color.green, color.red})) << "the box's right border";
  EXPECT_EQ(pixel(8, 40), (std::vector<int>{0, 0, 200})) << "inside it";
  EXPECT_EQ(pixel(24, 40), (std::vector<int>{0, 0, 0})) << "beside it";
}

TEST_F(DetectCliTest, TheScoreDecidesWhatIsShown) {
  const Outcome all = Moka(Infer() + "--score 0.4 --json");
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_EQ(Json::parse(all.out)[0].at("boxes").size(), 4U) << "three quarters that are not red have 0.5";
  const Outcome none = Moka(Infer() + "--score 0.9");
  ASSERT_EQ(none.code, 0) << none.err;
  EXPECT_EQ(none.out, "pictures/red.png -> detections/red_boxes.png\n");
  const Outcome wrong = Moka(Infer() + "--score lots");
  EXPECT_EQ(wrong.code, 64);
  EXPECT_NE(wrong.err.find("--score wants a number from 0 to 1, found \"lots\""), std::string::npos) << wrong.err;
}

TEST_F(DetectCliTest, AnnotationsAreImportedAsTheSameBoxes) {
  const std::map<std::string, std::string> sources = {
      {"coco", "coco:coco/instances.json,coco/images"},
      {"voc", "voc:voc,train,voc/classes.txt"},
      {"yolo", "yolo:yolo/images,yolo/labels,yolo/classes.txt"},
  };
  for (const auto& [kind, source] : sources) {
    const Outcome made = Moka(StrCat(Infer(), "--score 0.4 --json --annotate ", kind, " --out ", kind));
    ASSERT_EQ(made.code, 0) << made.err;
    EXPECT_NE(made.err.find("moka data import " + source), std::string::npos) << made.err;
    const Json picture = Json::parse(made.out)[0];
    ASSERT_EQ(picture.at("boxes").size(), 4U);
    ASSERT_EQ(Moka(StrCat("data import ", source, " db_", kind)).code, 0) << kind;
    const LmdbReader reader(folder_ / ("db_" + kind));
    ASSERT_EQ(reader.size(), 1);
    SampleRecord record;
    ASSERT_TRUE(record.ParseFromString(std::string(reader.value(0))));
    ASSERT_EQ(record.box_size(), 4) << kind;
    for (int i = 0; i < 4; ++i) {
      const SampleBox& box = record.box(i);
      EXPECT_EQ(box.label(), 1) << kind;
      const std::vector<double> edges = picture.at("boxes")[static_cast<size_t>(i)].at("box");
      EXPECT_NEAR(static_cast<double>(box.xmin()) * 32, edges[0], 0.011) << kind;
      EXPECT_NEAR(static_cast<double>(box.ymin()) * 48, edges[1], 0.011) << kind;
      EXPECT_NEAR(static_cast<double>(box.xmax()) * 32, edges[2], 0.011) << kind;
      EXPECT_NEAR(static_cast<double>(box.ymax()) * 48, edges[3], 0.011) << kind;
    }
    EXPECT_NE(ReadFile(folder_ / ("db_" + kind) / "schema.prototxt").find("red thing"), std::string::npos);
    // Three of the four have 0.5, which is a bit each; one has e^2 / (1 + e^2).
    const double s = std::exp(2.0) / (1 + std::exp(2.0));
    const double bits = -s * std::log2(s) - (1 - s) * std::log2(1 - s);
    EXPECT_NEAR(picture.at("uncertainty").get<double>(), (1.5 + s * bits) / (1.5 + s), 1e-5);
    EXPECT_TRUE(ReadFile(folder_ / kind / "uncertainty.csv").starts_with("picture,file,uncertainty\n"));
  }
  const Json coco = Json::parse(ReadFile(folder_ / "coco/instances.json"));
  EXPECT_NEAR(coco.at("annotations")[0].at("score").get<double>(), 0.880797, 1e-6);
  EXPECT_NE(ReadFile(folder_ / "voc/Annotations/red.xml").find("<score>0.880797</score>"), std::string::npos);
  EXPECT_NE(ReadFile(folder_ / "yolo/scores.csv").find("images/red.png,red thing,0.880797,"), std::string::npos);
  const Outcome masks = Moka(Infer() + "--annotate folders");
  EXPECT_EQ(masks.code, 64);
  EXPECT_NE(masks.err.find("for this model: coco, voc, yolo"), std::string::npos) << masks.err;
}

TEST_F(DetectCliTest, TracksOfAVideoAreFilesThatComeBack) {
  fs::create_directories(folder_ / "clip");
  for (int i = 1; i <= 6; ++i) WriteFileAtomically(folder_ / StrCat("clip/", i, ".png"), EncodePng(picture_));
  const std::string infer = "infer detector --weights detector/net.caffemodel ";
  const Outcome made = Moka(infer + "clip --track --json --fps 10 --drawn avi");
  ASSERT_EQ(made.code, 0) << made.err;
  const Json video = Json::parse(made.out)[0];
  EXPECT_EQ(video.at("frames"), 6);
  ASSERT_EQ(video.at("tracks").size(), 1U) << "quarters of 0.5 begin none";
  EXPECT_EQ(video.at("tracks")[0].at("label"), "red thing");
  EXPECT_EQ(video.at("tracks")[0].at("boxes"), 6);
  EXPECT_TRUE(ReadFile(folder_ / "tracks/clip.txt").starts_with("1,1,0.00,24.00,16.00,24.00,0.880797,1,-1\n2,1,"));
  const Json all = Json::parse(ReadFile(folder_ / "tracks/clip.json"));
  EXPECT_EQ(all.at("tracks")[0].at("boxes")[5].at("frame"), 6);

  const Outcome rate = Moka(infer + "clip --track --fps 0 --out rated");
  EXPECT_EQ(rate.code, 64) << rate.err;
  EXPECT_FALSE(fs::exists(folder_ / "rated"));

  // The drawn video is one that can be followed again, at its rate.
  const Outcome again = Moka(infer + "tracks/clip.avi --track --out again --json --drawn none");
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(Json::parse(again.out)[0].at("frames"), 6);
  EXPECT_EQ(Json::parse(again.out)[0].at("fps"), 10.0);
  EXPECT_EQ(Json::parse(again.out)[0].at("files"), Json({"again/clip.txt", "again/clip.json"}));
  EXPECT_FALSE(fs::exists(folder_ / "again/clip.avi"));

  // Two pictures a second of its time are those at 0 and 0.5.
  const Outcome sampled = Moka(infer + "tracks/clip.avi --track --out sampled --json --drawn avi --fps 2");
  ASSERT_EQ(sampled.code, 0) << sampled.err;
  EXPECT_EQ(Json::parse(sampled.out)[0].at("frames"), 2);
  EXPECT_EQ(Json::parse(ReadFile(folder_ / "sampled/clip.json")).at("times_s"), Json({0.0, 0.5}));

  const Outcome scores = Moka("data tracks tracks/clip.txt tracks/clip.txt --json");
  ASSERT_EQ(scores.code, 0) << scores.err;
  EXPECT_EQ(Json::parse(scores.out).at("hota"), 1.0);
  ASSERT_EQ(Moka("data import video:tracks/clip.avi,tracks/clip.txt clip_db").code, 0);
  EXPECT_EQ(LmdbReader(folder_ / "clip_db").size(), 6);
  EXPECT_FALSE(fs::exists(folder_ / "clip_db.frames"));
}

TEST_F(DetectCliTest, LinesAndZonesCountWhatAVideoShows) {
  fs::create_directories(folder_ / "moving");
  for (int i = 0; i < 6; ++i) {  // its middle goes from x = 8 to 24
    Image picture = picture_;
    for (size_t k = 0; k < picture.pixels.size(); k += 3) picture.pixels[k] = static_cast<uint8_t>(40 * i);
    WriteFileAtomically(folder_ / StrCat("moving/", i, ".png"), EncodePng(picture));
  }
  const std::string infer = "infer detector --weights detector/net.caffemodel moving --track --fps 5 --drawn avi ";
  const std::string places = "--line 16,0,16,48 --line 0,30,32,30 --zone 0,24,15,24,15,48,0,48 ";
  const Outcome made = Moka(infer + places + "--json --out counted");
  ASSERT_EQ(made.code, 0) << made.err;
  const Json video = Json::parse(made.out)[0];
  ASSERT_EQ(video.at("tracks").size(), 1U);
  ASSERT_EQ(video.at("lines").size(), 2U);
  const Json& line = video.at("lines")[0];
  EXPECT_EQ(line.at("line"), Json({16.0, 0.0, 16.0, 48.0}));
  EXPECT_EQ(line.at("to_left"), 1) << "down the line, the picture's right is on the left";
  EXPECT_EQ(line.at("to_right"), 0);
  EXPECT_EQ(line.at("by_class"), Json::parse(R"({"red thing": {"to_right": 0, "to_left": 1}})"));
  ASSERT_EQ(line.at("crossings").size(), 1U);
  EXPECT_EQ(line.at("crossings")[0].at("track"), 1);
  EXPECT_EQ(line.at("crossings")[0].at("frame"), 4) << "8 + 3 * 3.2 is beyond 16";
  EXPECT_NEAR(line.at("crossings")[0].at("time_s").get<double>(), 0.6, 1e-9);
  EXPECT_EQ(video.at("lines")[1].at("crossings").size(), 0U);
  const Json& zone = video.at("zones")[0];
  EXPECT_EQ(zone.at("tracks"), 1);
  EXPECT_EQ(zone.at("entered"), 0);
  EXPECT_EQ(zone.at("left"), 1);
  EXPECT_EQ(zone.at("most_inside"), 1);
  EXPECT_EQ(zone.at("most_frame"), 1);
  EXPECT_NEAR(zone.at("mean_inside").get<double>(), 0.5, 1e-9);
  EXPECT_EQ(zone.at("by_class"), Json::parse(R"({"red thing": 1})"));
  const Json all = Json::parse(ReadFile(folder_ / "counted/moving.json"));
  EXPECT_EQ(all.at("lines"), video.at("lines"));
  EXPECT_EQ(all.at("zones"), video.at("zones"));
  EXPECT_TRUE(fs::exists(folder_ / "counted/moving.avi"));

  const Outcome told = Moka(infer + places + "--out told");
  EXPECT_NE(told.out.find("line 16,0,16,48: 0 to the right, 1 to the left\n"), std::string::npos) << told.out;
  EXPECT_NE(told.out.find("zone 0,24,15,24,15,48,0,48: 1 track, 0 entered, 1 left, at most 1 at once\n"),
            std::string::npos)
      << told.out;

  const auto refused = [&](const std::string& words, const std::string& text) {
    const Outcome outcome = Moka(infer + words + " --out refused");
    EXPECT_EQ(outcome.code, 64) << words;
    EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.err;
    EXPECT_FALSE(fs::exists(folder_ / "refused/moving.txt"));
  };
  refused("--line 1,2,3", "--line: \"1,2,3\" are no pixels X1,Y1,X2,Y2");
  refused("--zone 0,0,32,0", "--zone: \"0,0,32,0\" surrounds nothing");
  refused("--line 40,0,40,48", "--line 40,0,40,48 lies outside the pictures, which are 32 x 48 pixels");
  const Outcome untracked = Moka(Infer() + "--line 16,0,16,48");
  EXPECT_EQ(untracked.code, 64);
  EXPECT_NE(untracked.err.find("it needs --track"), std::string::npos) << untracked.err;
  const Outcome format = Moka("infer detector --weights detector/net.caffemodel moving --track --drawn gif");
  EXPECT_EQ(format.code, 64);
  EXPECT_NE(format.err.find("--drawn is \"gif\", expected mp4, avi or none"), std::string::npos) << format.err;
}

TEST_F(DetectCliTest, APictureOfAVideoThatIsBadShowsNothing) {
  fs::create_directories(folder_ / "torn");
  for (int i = 1; i <= 4; ++i) WriteFileAtomically(folder_ / StrCat("torn/", i, ".png"), EncodePng(picture_));
  WriteFileAtomically(folder_ / "torn/3.png", "no picture");
  const std::string infer = "infer detector --weights detector/net.caffemodel ";
  EXPECT_EQ(Moka(infer + "torn --track --drawn avi --out torn_tracks").code, 65);
  const std::vector<std::string> lines = Split(ReadFile(folder_ / "torn_tracks/torn.txt"), '\n');
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_TRUE(lines[2].starts_with("4,1,")) << lines[2];
  Image large;
  large.Resize(64, 48, 3);
  WriteFileAtomically(folder_ / "torn/3.png", EncodePng(large));
  const Outcome sizes = Moka(infer + "torn --track --drawn avi --out torn_sizes");
  EXPECT_EQ(sizes.code, 65);
  EXPECT_NE(sizes.err.find("torn/3.png is 64 x 48, the pictures before it 32 x 48"), std::string::npos) << sizes.err;
  EXPECT_FALSE(fs::exists(folder_ / "torn_sizes/torn.txt"));
  const Outcome picture = Moka(infer + "torn/1.png --track");
  EXPECT_EQ(picture.code, 64);
  EXPECT_NE(picture.err.find("--track wants videos"), std::string::npos) << picture.err;
}

TEST_F(DetectCliTest, ANetWithoutDetectionsIsAnError) {
  std::string net = kNet;
  net.resize(net.find("layer {\n  name: \"detections\""));
  WriteFileAtomically(folder_ / "detector/deploy.prototxt", net);
  const Outcome outcome = Moka(Infer());
  EXPECT_EQ(outcome.code, 78);
  EXPECT_NE(outcome.err.find("no output of the net is rows [1,1,R,7] of boxes"), std::string::npos) << outcome.err;
}

// The boxes that a batch holds decide what its loss is divided by, and here they are not alike among the ranks: picture
// i has i mod 4 of them.
class DetectRanksCliTest : public CliTest {
 protected:
  void SetUp() override {
    Image picture;
    std::string list;
    for (int i = 0; i < kPictures; ++i) {
      picture.Resize(32, 32, 3);
      for (size_t k = 0; k < picture.pixels.size(); ++k) picture.pixels[k] = static_cast<uint8_t>((k * (i + 3)) % 251);
      std::string objects;
      for (int box = 0; box < i % 4; ++box) {
        objects += StrCat("<object><name>thing</name><difficult>0</difficult><bndbox><xmin>", 1 + 10 * box,
                          "</xmin><ymin>", 2 + 3 * box, "</ymin><xmax>", 10 + 10 * box, "</xmax><ymax>", 20 + i % 8,
                          "</ymax></bndbox></object>");
      }
      fs::create_directories(folder_ / "boxes");
      WriteFileAtomically(folder_ / StrCat("boxes/", i, ".png"), EncodePng(picture));
      WriteFileAtomically(folder_ / StrCat("boxes/", i, ".xml"),
                          StrCat("<annotation><size><width>32</width><height>32</height><depth>3</depth></size>",
                                 objects, "</annotation>"));
      list += StrCat(i, ".png ", i, ".xml\n");
    }
    WriteFileAtomically(folder_ / "boxes/list.txt", list);
    WriteFileAtomically(folder_ / "boxes/labels.prototxt",
                        "item { name: \"none\" label: 0 } item { name: \"thing\" label: 1 }");
    WriteFileAtomically(folder_ / "boxes/net.prototxt", kTrained);
    WriteFileAtomically(folder_ / "boxes/solver.prototxt",
                        "net: \"net.prototxt\" base_lr: 0.001 lr_policy: \"fixed\" momentum: 0.9 max_iter: 4 "
                        "display: 1 random_seed: 3");
    ASSERT_EQ(Moka("data import boxes:boxes/list.txt,boxes/labels.prototxt,boxes boxes/db").code, 0);
  }

  // The losses of its iterations.
  static std::vector<double> Losses(int ranks) {
    const std::string run = StrCat("of", ranks);
    const Outcome trained = Moka(StrCat("train boxes/solver.prototxt --run ", run, " --ranks ", ranks));
    EXPECT_EQ(trained.code, 0) << trained.err;
    EXPECT_EQ(trained.err.find("do not train as one does"), std::string::npos) << trained.err;
    std::vector<double> losses;
    for (const std::string& line : Split(ReadFile(folder_ / "runs" / (run + "-0001") / "metrics.jsonl"), '\n')) {
      if (line.empty()) continue;
      const Json row = Json::parse(line);
      if (row.contains("loss")) losses.push_back(row.at("loss"));
    }
    return losses;
  }

  static constexpr int kPictures = 13;  // no multiple of the batch
  static constexpr const char* kTrained = R"(
name: "boxes"
layer {
  name: "data" type: "AnnotatedData" top: "data" top: "truth" data_param { source: "boxes/db" batch_size: 6 backend: LMDB }
  transform_param { scale: 0.01 resize_param { prob: 1 resize_mode: WARP height: 32 width: 32 interp_mode: LINEAR } }
}
layer {
  name: "loc" type: "Convolution" bottom: "data" top: "loc"
  convolution_param { num_output: 4 kernel_size: 8 stride: 8 weight_filler { type: "xavier" } }
}
layer {
  name: "conf" type: "Convolution" bottom: "data" top: "conf"
  convolution_param { num_output: 2 kernel_size: 8 stride: 8 weight_filler { type: "xavier" } }
}
layer { name: "loc_last" type: "Permute" bottom: "loc" top: "loc_last" permute_param { order: 0 order: 2 order: 3 order: 1 } }
layer { name: "loc_flat" type: "Flatten" bottom: "loc_last" top: "loc_flat" }
layer {
  name: "conf_last" type: "Permute" bottom: "conf" top: "conf_last" permute_param { order: 0 order: 2 order: 3 order: 1 }
}
layer { name: "conf_flat" type: "Flatten" bottom: "conf_last" top: "conf_flat" }
layer { name: "prior" type: "PriorBox" bottom: "loc" bottom: "data" top: "prior" prior_box_param { min_size: 12 } }
layer {
  name: "loss" type: "MultiBoxLoss" bottom: "loc_flat" bottom: "conf_flat" bottom: "prior" bottom: "truth" top: "loss"
  multibox_loss_param { num_classes: 2 code_type: CENTER_SIZE overlap_threshold: 0.3 }
}
)";
};

TEST_F(DetectRanksCliTest, SeveralRanksTrainADetectorAsOneDoes) {
  const std::vector<double> alone = Losses(1);
  ASSERT_EQ(alone.size(), 4U);
  EXPECT_NE(alone.front(), alone.back()) << "it learns";
  for (const int ranks : {2, 3}) {
    const std::vector<double> losses = Losses(ranks);
    ASSERT_EQ(losses.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_NEAR(losses[i], alone[i], 1e-4 * alone[i]) << ranks << " ranks, iteration " << i;
    }
  }
}

}  // namespace
}  // namespace moka
