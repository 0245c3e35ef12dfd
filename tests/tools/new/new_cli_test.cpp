// moka new as a person uses it: a folder of made-up pictures becomes a model that trains, is tested and looks at a
// picture without a word changed; and what it cannot take is refused with what was seen.
#include <gmock/gmock.h>

#include <string>

#include "proto/nets/model_card.h"
#include "proto/nets/solver_file.h"
#include "tests/tools/new/made_sets.h"
#include "tests/tools/new/new_model_test.h"

namespace moka {
namespace {

using testing::HasSubstr;
using testing::Not;

class NewCliTest : public NewModelTest {
 protected:
  // Trains the model for 20 iterations, tests it and shows it a picture. Returns the last.
  static Outcome TrainAndTry(const std::string& model, const std::string& picture, const std::string& more = {}) {
    const Outcome trained =
        Moka(StrCat("train ", model, " max_iter=20 test_interval=10 snapshot=20 display=10 warmup_iter=5 ", more));
    EXPECT_EQ(trained.code, 0) << trained.err;
    EXPECT_THAT(trained.err, HasSubstr("moka test runs/" + model + "-0001"));
    EXPECT_THAT(trained.err, HasSubstr("moka infer runs/" + model + "-0001 PICTURE"));
    const Outcome tested = Moka("test runs/latest");
    EXPECT_EQ(tested.code, 0) << tested.err;
    EXPECT_THAT(tested.err, HasSubstr("moka infer runs/latest PICTURE"));
    return Moka(StrCat("infer runs/latest ", picture, " --json"));
  }
  static std::string Text(const std::string& file) { return ReadFile(folder_ / file); }
};

TEST_F(NewCliTest, FoldersOfClassesBecomeAClassifier) {
  MakeClassFolders(folder_ / "photos", 3, 40);
  const Outcome made = Moka("new classify photos --out colours --parts train=0.75,val=0.25");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("3 classes: blue 40, green 40, red 40\n"));
  EXPECT_THAT(made.out, HasSubstr("next: moka train colours\n"));
  for (const char* file : {"train_val.prototxt", "solver.prototxt", "deploy.prototxt", "model.prototxt", "README.md"}) {
    EXPECT_TRUE(fs::exists(folder_ / "colours" / file)) << file;
  }
  EXPECT_EQ(Text("colours/labels.txt"), "blue\ngreen\nred\n");
  EXPECT_FALSE(fs::exists(folder_ / "colours.partial"));
  const Json train = Json::parse(Moka("data inspect colours/data/train --json").out);
  const Json val = Json::parse(Moka("data inspect colours/data/val --json").out);
  const auto trained = train.at("records").get<int64_t>();
  const auto tested = val.at("records").get<int64_t>();
  EXPECT_EQ(trained + tested, 120);
  // The numbers of the solver are those of these pictures.
  const SolverParameter solver = ReadSolver(folder_ / "colours/solver.prototxt");
  const int64_t batch = std::clamp<int64_t>(trained / 4, 4, 32);
  EXPECT_EQ(solver.max_iter(), 500 * trained / batch);
  EXPECT_EQ(solver.test_iter(0), 1);
  EXPECT_EQ(solver.warmup_iter(), solver.max_iter() / 12);
  const std::string net = Text("colours/train_val.prototxt");
  EXPECT_THAT(net, HasSubstr(StrCat("batch_size: ", batch, " backend: LMDB shuffle: true")));
  EXPECT_THAT(net, HasSubstr(StrCat("batch_size: ", tested, " backend")));
  EXPECT_THAT(net, HasSubstr("num_output: 3 "));
  EXPECT_THAT(net, HasSubstr("crop_size: 64 mirror: true"));  // 80 pixels: tested whole, trained on 6/7 of it
  EXPECT_THAT(net, HasSubstr("resize_short: 80 crop_size: 80"));
  EXPECT_THAT(Text("colours/README.md"), HasSubstr("(the fastest of "));
  EXPECT_THAT(Text("colours/README.md"), HasSubstr("tested on 80 (1.25 times as many;"));
  for (const char* file : {"train_val", "deploy"}) {
    const Outcome checked = Moka(StrCat("model check colours/", file, ".prototxt"));
    EXPECT_EQ(checked.code, 0) << checked.out << checked.err;
  }
  const Outcome seen = TrainAndTry("colours", "photos/red/7.png", "base_lr=0.02");
  ASSERT_EQ(seen.code, 0) << seen.err;
  EXPECT_THAT(seen.out, HasSubstr("red"));
}

TEST_F(NewCliTest, PartsOfTheSourceAreTaken) {
  MakeClassFolders(folder_ / "parted/train", 2, 12);
  MakeClassFolders(folder_ / "parted/valid", 2, 5, 12);
  MakeClassFolders(folder_ / "parted/test", 2, 4, 17);
  fs::copy_file(folder_ / "parted/train/blue/3.png", folder_ / "parted/valid/blue/copy.png");
  const Outcome refused = Moka("new classify parted --out parts --parts train=0.5,val=0.5");
  EXPECT_EQ(refused.code, 64);
  EXPECT_THAT(refused.err, HasSubstr("--parts has no use here"));
  const Outcome made = Moka("new classify parted --out parts --size small");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out,
              HasSubstr("parts: train 24 pictures, val 11 pictures, test 8 pictures (as the source has them)"));
  EXPECT_THAT(made.err, HasSubstr("1 pictures of val are in train too"));
  ASSERT_EQ(Moka("train parts max_iter=2 test_interval=2 display=1 warmup_iter=1").code, 0);
  const Json held_out = Json::parse(Moka("test runs/latest --stage test --json").out);
  EXPECT_EQ(held_out.at("batch"), 8);
  const Json val = Json::parse(Moka("test runs/latest --json").out);
  EXPECT_EQ(val.at("batch"), 11);
}

// Nets whose records had one size, which their data layers do not say: LeNet takes them whole, the other cuts 32 pixels
// of padded ones.
TEST_F(NewCliTest, NetsWithoutACropAreFineTuned) {
  MakeClassFolders(folder_ / "three", 3, 12, 20);
  const std::string models = StrCat(MOKA_SOURCE_DIR, "/models/");
  const Outcome digits = Moka(StrCat("new classify three --out digits --from ", models, "lenet"));
  ASSERT_EQ(digits.code, 0) << digits.err;
  const std::string of_digits = Text("digits/train_val.prototxt");
  EXPECT_THAT(of_digits, HasSubstr("crop_size: 28\n    resize_short: 28\n    force_gray: true\n"));
  EXPECT_THAT(Text("digits/README.md"), HasSubstr("28 pixels in trainings and 28 in tests"));

  fs::create_directory(folder_ / "small");
  for (const char* file : {"train_val.prototxt", "record_sizes.json"})
    fs::copy(models + "cifar10_quick/" + file, folder_ / "small" / file);
  fs::copy(models + "cifar10_quick/weights.safetensors", folder_ / "small/weights.safetensors");
  const std::string net = Text("small/train_val.prototxt");
  const size_t at = net.find("force_color: true");
  PlaceFile(folder_ / "small/train_val.prototxt", StrCat(net.substr(0, at), "pad: 4 crop_size: 32 ", net.substr(at)));
  const Outcome made = Moka("new classify three --out clipped --from small");
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string of_cut = Text("clipped/train_val.prototxt");
  EXPECT_THAT(of_cut, HasSubstr("pad: 4\n    resize_short: 32\n"));
  EXPECT_THAT(of_cut, HasSubstr("name: \"ip2_clipped\""));
  const Outcome trained = Moka("train clipped max_iter=4 test_interval=4 snapshot=4 display=2 warmup_iter=1");
  EXPECT_EQ(trained.code, 0) << trained.err;
  fs::remove(folder_ / "small/record_sizes.json");
  const Outcome unknown = Moka("new classify three --out none --from small");
  EXPECT_EQ(unknown.code, 78) << unknown.err;
  EXPECT_THAT(unknown.err, HasSubstr("nothing says how large the pictures are that its net takes"));
}

// Pictures of 32 pixels are a third of what the net of clothing was trained on.
TEST_F(NewCliTest, SmallPicturesAreSeenWithoutTheFirstStrides) {
  MakeClassFolders(folder_ / "tiny", 2, 12, 0, 32, 32);
  const Outcome made =
      Moka(StrCat("new classify tiny --out finer --from ", MOKA_SOURCE_DIR, "/models/clothing_resnet"));
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string net = Text("finer/train_val.prototxt");
  EXPECT_THAT(net, HasSubstr("pad: 4 crop_size: 32 mirror: true\n    mean_value: 114.6\n"));
  EXPECT_THAT(net.substr(0, net.find("\"conv1_bn\"")), testing::Not(HasSubstr("stride:")));
  EXPECT_THAT(net, testing::Not(HasSubstr("\"pool1\"")));
  EXPECT_THAT(Text("finer/README.md"), HasSubstr("its first strides are taken out"));
  EXPECT_THAT(Text("finer/solver.prototxt"), HasSubstr("base_lr: 0.4 "));
  const Outcome trained = Moka("train finer max_iter=2 test_interval=2 snapshot=2 display=1 warmup_iter=1");
  EXPECT_EQ(trained.code, 0) << trained.err;
}

// The first net's classes are two, the second's three: all layers but the classifier keep their weights, learn at a
// tenth of the rate, and wait while the new classifier learns alone.
TEST_F(NewCliTest, ARunIsFineTuned) {
  MakeClassFolders(folder_ / "two", 2, 12);
  MakeClassFolders(folder_ / "three", 3, 12, 20);
  ASSERT_EQ(Moka("new classify two --out first --size small").code, 0);
  ASSERT_EQ(Moka("train first max_iter=4 test_interval=4 snapshot=4 display=2 warmup_iter=1").code, 0);
  const Outcome made = Moka("new classify three --out second --from runs/first-0001");
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string net = Text("second/train_val.prototxt");
  EXPECT_THAT(net, HasSubstr("name: \"fc_second\""));
  EXPECT_THAT(net, HasSubstr("lr_mult: 0.1"));
  EXPECT_THAT(Text("second/solver.prototxt"), HasSubstr("first_solver: \"solver_head.prototxt\""));
  EXPECT_EQ(ReadFile(folder_ / "second/start.safetensors"),
            ReadFile(folder_ / "runs/first-0001/checkpoints/iter_0000004.safetensors"));
  const Outcome trained = Moka("train second max_iter=4 test_interval=4 snapshot=4 display=2 warmup_iter=1");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(fs::exists(folder_ / "runs/second_head-0001"));
  // A page of a training that another goes on from would cost a whole test.
  EXPECT_FALSE(fs::exists(folder_ / "runs/second_head-0001/report.html"));
  EXPECT_TRUE(fs::exists(folder_ / "runs/second-0001/report.html"));
  EXPECT_THAT(trained.err, Not(HasSubstr("old spelling")));
  const Outcome seen = Moka("infer runs/second-0001 three/red/21.png --json");
  EXPECT_EQ(seen.code, 0) << seen.err;
  // A model that carries its weights is a start, too, by its name.
  fs::create_directories(folder_ / "models");
  fs::copy(folder_ / "first", folder_ / "models/first");
  PlaceFile(folder_ / "models/README.md", "<!-- zoo -->\n<!-- /zoo -->\n");
  const Outcome bare = Moka("new classify three --out fourth --from zoo:first");
  EXPECT_EQ(bare.code, 66) << bare.err;
  EXPECT_THAT(bare.err, HasSubstr("zoo:first carries no trained weights"));
  PlaceFile(folder_ / "models/first/README.md", "<!-- zoo -->\n<!-- /zoo -->\n");
  const Outcome packed = Moka("zoo pack first-0001 first --untested");
  ASSERT_EQ(packed.code, 0) << packed.err;
  const Outcome from_zoo = Moka("new classify three --out fourth --from zoo:first");
  ASSERT_EQ(from_zoo.code, 0) << from_zoo.err;
  EXPECT_EQ(ReadFile(folder_ / "fourth/start.safetensors"), ReadFile(folder_ / "models/first/weights.safetensors"));
  const Outcome none = Moka("new classify three --out third --from fisrt-0001");
  EXPECT_EQ(none.code, 66);
  EXPECT_THAT(none.err, HasSubstr("first-0001"));
  const Outcome boxes = Moka("new detect three --out third --from runs/first-0001");
  EXPECT_EQ(boxes.code, 64);
  EXPECT_THAT(boxes.err, HasSubstr("--from has no use here"));
}

TEST_F(NewCliTest, BoxesBecomeADetector) {
  MakeObjects(folder_ / "objects", 45);
  const Outcome made = Moka("new detect objects --out boxes --size small");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("3 classes, boxes: blue 15, green 15, red 15\n"));
  const std::string net = Text("boxes/train_val.prototxt");
  EXPECT_THAT(net, HasSubstr("crop_h: 64 crop_w: 96"));
  EXPECT_THAT(net, HasSubstr("set: \"classes=4\""));
  // 12x8 + 6x4 + 3x2 + 2x1 cells of 8 boxes.
  EXPECT_THAT(net, HasSubstr("dim: 1024 dim: -1"));
  EXPECT_EQ(Text("boxes/labels.txt"), "none\nblue\ngreen\nred\n");
  const Outcome seen = TrainAndTry("boxes", "objects/images/1.png", "base_lr=0.01");
  ASSERT_EQ(seen.code, 0) << seen.err;
  EXPECT_TRUE(Json::accept(seen.out)) << seen.out;
}

// A test set has a source of its own: its crowded pictures count for the places of boxes that the layers have.
TEST_F(NewCliTest, BoxesOfASeparateTestHaveRoom) {
  MakeObjects(folder_ / "many/train", 45);
  MakeObjects(folder_ / "many/test", 3);
  for (const char* kind : {"images", "labels"}) {
    for (const char* part : {"train", "test"}) {
      fs::create_directories(folder_ / "yolo" / kind);
      fs::rename(folder_ / "many" / part / kind, folder_ / "yolo" / kind / part);
    }
  }
  fs::copy_file(folder_ / "many/train/classes.txt", folder_ / "yolo/classes.txt");
  std::string crowd;
  for (int i = 0; i < 19; ++i) crowd += "0 0.5 0.5 0.2 0.2\n";
  PlaceFile(folder_ / "yolo/labels/test/1.txt", crowd);
  const Outcome made = Moka("new detect yolo --out crowded --size small");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(Text("crowded/train_val.prototxt"), HasSubstr("max_boxes: 24 "));
}

TEST_F(NewCliTest, MasksBecomeASegmenter) {
  MakeObjects(folder_ / "masked", 30);
  fs::remove(folder_ / "masked/classes.txt");
  fs::remove_all(folder_ / "masked/labels");
  const Outcome made = Moka("new segment masked --out pixels --size small");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("2 classes of pixels: background, object\n"));
  EXPECT_EQ(Text("pixels/labels.txt"), "background\nobject\n");
  EXPECT_FALSE(fs::exists(folder_ / "pixels/names.txt"));
  EXPECT_THAT(Text("pixels/README.md"), HasSubstr("Written by `moka new segment` from masked."));
  EXPECT_THAT(Text("pixels/train_val.prototxt"), HasSubstr("crop_w: 96 crop_h: 64"));
  const Outcome seen = TrainAndTry("pixels", "masked/images/1.png");
  ASSERT_EQ(seen.code, 0) << seen.err;
  EXPECT_THAT(seen.out, HasSubstr("object"));
}

// Masks of objects' numbers: one object a picture, of number 255.
TEST_F(NewCliTest, NumberedMasksBecomeInstances) {
  MakeObjects(folder_ / "single", 30);
  const Outcome made = Moka("new instances single --out cut --size small");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("1 classes, boxes: object 30\n"));
  const std::string net = Text("cut/train_val.prototxt");
  EXPECT_THAT(net, HasSubstr("crop_size: 64 "));
  EXPECT_THAT(net, HasSubstr("canvas_height: 80 canvas_width: 112"));
  EXPECT_FALSE(fs::exists(folder_ / "cut/deploy.prototxt"));
  const Outcome seen = TrainAndTry("cut", "single/images/1.png", "base_lr=0.002");
  ASSERT_EQ(seen.code, 0) << seen.err;
  EXPECT_TRUE(Json::accept(seen.out)) << seen.out;
  fs::rename(folder_ / "single/masks", folder_ / "single/instances");
  fs::remove_all(folder_ / "single/labels");
  const Outcome numbers = Moka("new segment single --out again");
  EXPECT_EQ(numbers.code, 65) << numbers.err;
  EXPECT_THAT(numbers.err, HasSubstr("moka new instances takes them"));
  const Outcome none = Moka("new instances cut --out again");
  EXPECT_EQ(none.code, 65) << none.err;
  EXPECT_THAT(none.err, HasSubstr("a number an object"));
}

TEST_F(NewCliTest, AFolderOfPicturesBecomesAGenerator) {
  MakeClassFolders(folder_ / "drawn", 3, 40);
  const Outcome made = Moka("new generate drawn --out painter --size small");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("pictures of 32x32 pixels\n"));
  EXPECT_THAT(Text("painter/README.md"), HasSubstr("from drawn."));
  const Outcome trained = Moka("train painter max_iter=2 test_interval=2 snapshot=2 display=1");
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Outcome seen = Moka("generate runs/painter-0001 --count 4 --out sheet.png");
  ASSERT_EQ(seen.code, 0) << seen.err;
  EXPECT_TRUE(fs::exists(folder_ / "sheet.png"));
  fs::create_directories(folder_ / "empty");
  EXPECT_EQ(Moka("new generate empty --out none").code, 66);
}

class NewTableCliTest : public NewCliTest {
 protected:
  // price = 100 + 3 size - 20 (kind old), of rows in a fixed order.
  static std::string Rows(int rows, bool has_price) {
    std::string text = has_price ? "size,kind,name,price\n" : "kind,size\n";
    for (int i = 0; i < rows; ++i) {
      const int size = i * 37 % 101;
      const bool is_old = i % 3 == 0;
      const char* kind = is_old ? "old" : "new";
      text += has_price ? StrCat(size, ",", kind, ",house ", i, ",", 100 + 3 * size - (is_old ? 20 : 0), "\n")
                        : StrCat(kind, ",", size, "\n");
    }
    return text;
  }
};

TEST_F(NewTableCliTest, ATableBecomesARegressor) {
  PlaceFile(folder_ / "houses.csv", Rows(300, true) + "5,?,house,100\n");
  const Outcome made = Moka("new regress houses.csv --out prices --size small");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("\"price\" (the last column; SOURCE,COLUMN names another) from 3 columns\n"));
  EXPECT_THAT(made.err, HasSubstr("column \"name\" is left out: it has 301 different texts"));
  EXPECT_THAT(made.err, HasSubstr("1 of 301 rows are left out"));
  EXPECT_EQ(Text("prices/labels.txt"), "size\nkind=new\nkind=old\nprice\n");
  const Outcome trained = Moka("train prices max_iter=1500 test_interval=500 base_lr=0.01 display=500");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("moka infer runs/prices-0001 TABLE"));
  const Json tested = Json::parse(Moka("test runs/prices-0001 --json").out);
  EXPECT_LT(tested.at("outputs").at("mean_error").get<double>(), 10);  // prices from 80 to 400
  PlaceFile(folder_ / "asked.csv", Rows(9, false));
  const Outcome asked = Moka("infer runs/prices-0001 asked.csv --json --batch 4");
  ASSERT_EQ(asked.code, 0) << asked.err;
  const Json rows = Json::parse(asked.out);
  ASSERT_EQ(rows.size(), 9U);
  for (int i = 0; i < 9; ++i) {
    const int size = i * 37 % 101;
    EXPECT_EQ(rows[static_cast<size_t>(i)].at("line"), i + 2);
    EXPECT_NEAR(rows[static_cast<size_t>(i)].at("value").get<double>(), 100 + 3 * size - (i % 3 == 0 ? 20 : 0), 40);
  }
  const Outcome piped = RunShell(StrCat("cd '", folder_.string(), "' && cat asked.csv | '", MOKA_BINARY,
                                        "' infer runs/prices-0001 - --json --batch 4"),
                                 folder_, "/dev/stdin");
  EXPECT_EQ(piped.out, asked.out) << piped.err;
  const Outcome known = Moka("infer runs/prices-0001 houses.csv");
  EXPECT_EQ(known.code, 0) << known.err;
  EXPECT_THAT(known.out, HasSubstr("line 302: price has no answer: a column is unknown there (the table has 100)\n"));
  PlaceFile(folder_ / "unknown.csv", "kind,size\nold,NA\nnew,4\n,5\n");
  const Json some = Json::parse(Moka("infer runs/prices-0001 unknown.csv --json").out);
  ASSERT_EQ(some.size(), 3U);
  EXPECT_TRUE(some[0].at("value").is_null() && some[1].at("value").is_number() && some[2].at("value").is_null());
  PlaceFile(folder_ / "unmet.csv", "kind,size\nodl,3\n");
  const Outcome unmet = Moka("infer runs/prices-0001 unmet.csv");
  EXPECT_EQ(unmet.code, 65);
  EXPECT_THAT(unmet.err, HasSubstr("unmet.csv:2: \"kind\" is \"odl\", which the net has not met"));
  PlaceFile(folder_ / "other.csv", "kinds,size\nold,3\n");
  const Outcome other = Moka("infer runs/prices-0001 other.csv");
  EXPECT_EQ(other.code, 65);
  EXPECT_THAT(other.err, HasSubstr("the table has no column \"kind\", which the net takes"));
  EXPECT_THAT(other.err, HasSubstr("did you mean \"kinds\"?"));
  const Outcome deployed = Moka("infer prices --weights runs/prices-0001/checkpoints/best asked.csv --json");
  EXPECT_EQ(deployed.code, 0) << deployed.err;
}

TEST_F(NewTableCliTest, AFolderThatWasMovedIsToldFromOneThatIsNotThere) {
  PlaceFile(folder_ / "houses.csv", Rows(60, true));
  ASSERT_EQ(Moka("new regress houses.csv --out homes --size small").code, 0);
  fs::rename(folder_ / "homes", folder_ / "moved");
  const Outcome trained = Moka("train moved");
  EXPECT_EQ(trained.code, 66);
  EXPECT_THAT(trained.err, HasSubstr("data/train is there: if it was moved, write that path"));
  fs::remove_all(folder_ / "moved/data");
  EXPECT_THAT(Moka("train moved").err, HasSubstr("`moka data import` makes one"));
}

TEST_F(NewTableCliTest, TablesOfPartsStayApart) {
  const std::string header = "size,kind,name,price\n";
  fs::create_directory(folder_ / "tables");
  PlaceFile(folder_ / "tables/train.csv", Rows(120, true));
  // Columns in another order, a row of the training, and a row that is left out.
  PlaceFile(folder_ / "tables/my_valid.csv",
            "price,kind,name,size\n80,old,house 0,0\n403,new,x,101\n1,?,y,1\n5,new,z,2\n");
  PlaceFile(folder_ / "tables/test.csv", header + "0,old,house 0,80\n7,new,z,5\n");
  PlaceFile(folder_ / "tables/notes.md", "of houses\n");
  const Outcome made = Moka("new regress tables,price --out parted --size small");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("parts: train 120 rows, val 3 rows, test 2 rows (as the source has them)"));
  EXPECT_THAT(made.err, HasSubstr("files whose names speak of no part: 1 (notes.md)"));
  EXPECT_THAT(made.err, HasSubstr("1 of 2 rows of test are in train too"));
  EXPECT_THAT(made.err, HasSubstr("val: 1 of 4 rows are left out"));
  EXPECT_EQ(Moka("train parted max_iter=20 test_interval=20 display=20").code, 0);
  EXPECT_EQ(Moka("test runs/parted-0001 --stage test").code, 0);

  fs::remove(folder_ / "tables/my_valid.csv");
  const Outcome split = Moka("new regress tables,price --out split --size small --parts train=0.5,val=0.5");
  ASSERT_EQ(split.code, 0) << split.err;
  EXPECT_THAT(split.out, HasSubstr("test 2 rows (train and val by a hash of their bytes, the test as the source has"));
  ExpectRefused(
      {{"new regress tables --out a --parts train=0.6,val=0.2,test=0.2", 64, "--parts has a test, and tables"}});
  PlaceFile(folder_ / "tables/val.csv", header + "0,castle,x,80\n");
  ExpectRefused({{"new regress tables --out a", 65, "tables/val.csv:2: \"castle\" of column \"kind\" is in no row of"},
                 {"new regress tables --out a --parts train=0.6,val=0.4", 64, "tables has its own parts"}});
  PlaceFile(folder_ / "tables/val.csv", "size,kinds,name,price\n0,old,x,80\n");
  ExpectRefused({{"new regress tables --out a", 65, "tables/val.csv:1: there is no column \"kind\""}});
  PlaceFile(folder_ / "tables/val.csv", "0,old,x,80\n");
  ExpectRefused({{"new regress tables --out a", 65, "tables/val.csv:1: the table has no names of columns"}});
  PlaceFile(folder_ / "tables/dev.csv", header + "0,old,x,80\n");
  ExpectRefused({{"new regress tables --out a", 65, "are both the part val"}});
  fs::create_directory(folder_ / "bare");
  ExpectRefused({{"new regress bare --out a", 66, "is a folder without a table that is called train"}});
  PlaceFile(folder_ / "bare/test.csv", Rows(120, true));
  ExpectRefused({{"new regress bare --out a", 65, "no file is of the part train"}});
}

TEST_F(NewTableCliTest, TablesThatTeachNothingAreRefused) {
  PlaceFile(folder_ / "few.csv", Rows(15, true));
  PlaceFile(
      folder_ / "same.csv", "a,b\n" + [] {
        std::string rows;
        for (int i = 0; i < 60; ++i) rows += StrCat(i, ",7\n");
        return rows;
      }());
  PlaceFile(folder_ / "names.csv", "name,b\nx,1\ny,2\nz,3\n");
  ExpectRefused({
      {"new regress few.csv --out a", 65, "the part train has"},
      {"new regress same.csv --out a", 65, "the target \"b\" is 7 in all rows"},
      {"new regress names.csv --out a", 65, "no column is there to learn from"},
      {"new regress few.csv,prise --out a", 64, "did you mean \"price\"?"},
      {"new regress few.csv,kind --out a", 65, "the target is a number; SOURCE,COLUMN names another column"},
      {"new regress few.csv --out a --skip-bad", 64, "--skip-bad is of pictures"},
      {"new regress none.csv --out a", 66, "none.csv does not exist"},
  });
}

TEST_F(NewCliTest, TooLittleIsRefused) {
  MakeClassFolders(folder_ / "few", 2, 12);
  MakeClassFolders(folder_ / "few", 3, 1, 50);
  const Outcome one = Moka("new classify few --out few_model");
  EXPECT_EQ(one.code, 65);
  EXPECT_THAT(one.err, HasSubstr("classes with too few pictures: \"red\" has 1; each needs 5 or more"));
  EXPECT_FALSE(fs::exists(folder_ / "few_model"));
  EXPECT_FALSE(fs::exists(folder_ / "few_model.partial"));
  MakeClassFolders(folder_ / "alone", 1, 12);
  const Outcome alone = Moka("new classify alone --out alone_model");
  EXPECT_EQ(alone.code, 65);
  EXPECT_THAT(alone.err, HasSubstr("all pictures are of one class, \"blue\""));
}

// A class may have boxes enough in all and none in the training.
TEST_F(NewCliTest, FewBoxesOfTheTrainingAreRefused) {
  MakeObjects(folder_ / "rare", 45);
  const Outcome made = Moka("new detect rare --out rare_model --parts train=0.1,val=0.9");
  EXPECT_EQ(made.code, 65) << made.err;
  EXPECT_THAT(made.err, HasSubstr("classes with too few boxes to train on: \"blue\" has "));
  EXPECT_THAT(made.err, HasSubstr(" of 15 in all"));
}

// The names of data.yaml go through a file that is gone when the error is read.
TEST_F(NewCliTest, MadeNamesAreToldWhereAnErrorNamesThem) {
  MakeObjects(folder_ / "yaml", 12);
  fs::remove(folder_ / "yaml/classes.txt");
  PlaceFile(folder_ / "yaml/data.yaml", "names: [blue, green]\n");
  const Outcome made = Moka("new detect yaml --out yaml_model");
  EXPECT_EQ(made.code, 65) << made.err;
  EXPECT_THAT(made.err, HasSubstr("names.txt was made of the names that yaml has"));
}

TEST_F(NewCliTest, MasksWithoutAClassAreRefused) {
  MakeObjects(folder_ / "void", 12);
  PlaceFile(folder_ / "void/classes.txt", "0 void\n255 object\n");
  for (int i = 0; i < 12; ++i) {
    Image mask;
    mask.Resize(96, 64, 1);
    PlaceFile(folder_ / "void/masks" / StrCat(i, ".png"), EncodePng(mask));
  }
  const Outcome made = Moka("new segment void --out void_model");
  EXPECT_EQ(made.code, 65) << made.err;
  EXPECT_THAT(made.err, HasSubstr("void: no pixel has a class"));
}

TEST_F(NewCliTest, BadPicturesAreNamedOrLeftOut) {
  MakeClassFolders(folder_ / "damaged", 2, 12);
  PlaceFile(folder_ / "damaged/blue/broken.png", ReadFile(folder_ / "damaged/blue/1.png").substr(0, 300));
  PlaceFile(folder_ / "damaged/green/empty.jpg", "");
  const Outcome refused = Moka("new classify damaged --out mended --size small");
  EXPECT_EQ(refused.code, 65);
  EXPECT_THAT(refused.err, HasSubstr("2 pictures are bad"));
  EXPECT_THAT(refused.err, HasSubstr("broken.png"));
  EXPECT_THAT(refused.err, HasSubstr("empty.jpg"));
  EXPECT_FALSE(fs::exists(folder_ / "mended"));
  const Outcome made = Moka("new classify damaged --out mended --size small --skip-bad");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("broken.png"));
  const auto records = [](const char* part) {
    return Json::parse(Moka(StrCat("data inspect mended/data/", part, " --json")).out).at("records").get<int64_t>();
  };
  EXPECT_EQ(records("train") + records("val"), 24);
}

TEST_F(NewCliTest, WrongWordsAndPlacesAreRefused) {
  MakeClassFolders(folder_ / "plain", 2, 12);
  fs::create_directories(folder_ / "there");
  fs::create_directories(folder_ / "other.partial");
  fs::create_directories(folder_ / "flat");
  fs::copy_file(folder_ / "plain/blue/1.png", folder_ / "flat/1.png");
  ExpectRefused({
      {"new clasify plain --out a", 64, "did you mean \"classify\"?"},
      {"new paint plain --out a", 64,
       "the tasks are answer, classify, detect, generate, instances, regress, segment, translate"},
      {"new classify plain", 64, "--out is missing"},
      {"new classify", 64, "the source"},
      {"new classify plain --out a --size huge", 64, "--size wants small, medium or large, found \"huge\""},
      {"new classify plain --out a --parts train=0.9", 64, "--parts wants train=SHARE,val=SHARE"},
      {"new classify plain --out \"$(printf 'a\\nb')\"", 64, "a control character"},
      {"new classify plain --out there", 73, "there exists already"},
      {"new classify plain --out other", 73, "other.partial is in the way"},
      {"new classify nowhere --out a", 66, "nowhere does not exist"},
      {"new classify flat --out a", 65, "expected FOLDER/CLASS/IMAGE"},
      {"new detect plain --out a", 65, "it holds blue/, green/"},
      {"new detect nowhere --out a", 66, "nowhere does not exist"},
      {"new segment plain --out a", 65, "expected images and masks"},
  });
}

}  // namespace
}  // namespace moka
