// Every reader against files that lie about size, nesting, ratio and type. Each is refused within 512 MiB and 10 s of
// CPU, by no signal and not as a defect of the program.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <map>

#include "core/error.h"
#include "proto/weights/weights.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/data/hostile_makers.h"
#include "tests/tools/data/measured_run.h"

namespace moka {
namespace {

using namespace hostile;  // NOLINT(google-build-using-namespace): the makers are this test's vocabulary

struct Lie {
  std::string name;
  std::function<void(const fs::path& file)> make;  // writes "lie" with the ending
  std::vector<std::string> commands;               // @ is the file
  std::string ending = {};
};

const std::string& Zeros(int window) {
  static std::map<int, std::string> all;
  auto at = all.find(window);
  if (at == all.end()) at = all.emplace(window, Deflated("", 128 * kMiB, window)).first;
  return at->second;
}

const std::string kInfer = "infer --model deploy.prototxt --weights w.safetensors ";
const std::vector<std::string> kPicture = {"data import list:in.txt o", "data check list:in.txt", kInfer + "@"};
const std::vector<std::string> kWeights = {"model convert @ o.safetensors", "import @ --net torch --out o.safetensors"};
const std::vector<std::string> kArrays = {"compare deploy.prototxt @", "model convert @ o.safetensors",
                                          "import @ --net torch --out o.safetensors"};
const std::vector<std::string> kJsons = {"data import coco:@,. o",
                                         "data check coco:@,.",
                                         kInfer + "p.png --int8 @",
                                         "data tracks @ @",
                                         "trace @",
                                         "simulate deploy.prototxt --topology t --times @"};
const std::vector<std::string> kTexts = {"data import list:@ o",
                                         "data import csv:@ o",
                                         "data table @ o --target y",
                                         kInfer + "p.png --labels @",
                                         "data import coco:@,. o",
                                         "model show @",
                                         "train @",
                                         "launch -n 2 --hostfile @ -- train solver.prototxt",
                                         "simulate deploy.prototxt --step-ms 3 --topology @",
                                         "data tracks @ @",
                                         "data import video:.,@ o",
                                         "data vocabulary @ o.txt"};

std::vector<Lie> JsonLies() {
  return {
      {"deep JSON", [](const fs::path& f) { Put(f, std::string(8 * kMiB, '[')); }, kJsons},
      {"deep objects", [](const fs::path& f) { Put(f, Repeated("{\"a\":", 2 * kMiB)); }, kJsons},
      {"JSON of many lists", [](const fs::path& f) { Put(f, "{\"x\":[" + Repeated("[],", 6 * kMiB) + "[]]}"); },
       kJsons},
      {"JSON of many objects",
       [](const fs::path& f) { Put(f, "{\"annotations\":[{\"a\":[" + Repeated("{\"\":0},", 3 * kMiB)); }, kJsons},
      {"a million bad annotations",
       [](const fs::path& f) {
         Put(f, "{\"images\":[{\"id\":1,\"file_name\":\"a\"}],\"categories\":[],\"annotations\":[" +
                    Repeated("{\"id\":1,\"image_id\":1,\"category_id\":1,\"bbox\":[0,0,1,1]},", kMiB / 2) + "{}]}");
       },
       {"data import coco:@,. o"}},
  };
}

std::vector<Lie> PackedLies() {
  return {
      {"npz bomb",
       [](const fs::path& f) {
         Put(f, Zip({{"a.npy", Zeros(-15), 512U << 20U}}));
       },
       kArrays},
      {"npz of one member a thousand times",
       [](const fs::path& f) {
         const std::string head = NpyHead("|u1", StrCat("(", 60 * kMiB, ",)"));
         Put(f, Zip({{"a.npy", Deflated(head, 60 * kMiB, -15), static_cast<uint32_t>(60 * kMiB + std::ssize(head))}},
                    1000));
       },
       kArrays},
      {"npz of a lying shape",
       [](const fs::path& f) {
         const std::string head = NpyHead("<f4", "(1000000000, 1000000)");
         Put(f, Zip({{"a.npy", Deflated(head, 10, -15), static_cast<uint32_t>(head.size() + 10)}}));
       },
       kArrays},
      {"npz that claims 4 GiB",
       [](const fs::path& f) {
         Put(f, Zip({{"a.npy", Deflated("", 10, -15), 0xFFFFFFF0U}}));
       },
       kArrays},
      {"gzip bomb",
       [](const fs::path& f) { Put(f, Zeros(31)); },
       {"data vocabulary @ o.txt", "data import cifar10:@ o", "data import tar:@ o", "data import shards:@ o",
        "data check tar:@", "data check shards:@"},
       ".tar.gz"},
      {"tar.gz of one large member",
       [](const fs::path& f) {
         std::string head = TarMember("train/a/p.jpg", "");
         head.replace(124, 11, Octal(900 << 20, 11)).replace(148, 8, "        ");
         size_t sum = 0;
         for (const char c : head) sum += static_cast<uint8_t>(c);
         head.replace(148, 6, Octal(sum, 6)).replace(154, 1, std::string(1, '\0'));
         Put(f, Deflated(head, 128 * kMiB, 31));
       },
       {"data import tar:@ o", "data import shards:@ o", "data import masks:@,@ o", "data import voc:@,train o",
        "data import coco:coco.json,@ o", "data import instances:@,@ o"},
       ".tar.gz"},
      {"idx bomb",
       [](const fs::path& f) {
         Put(f, Deflated(Big(0x803, 4) + Big(500000, 4) + Big(32, 4) + Big(32, 4), 128 * kMiB, 31));
       },
       {"data import idx:@,labels.idx o"}},
      {"idx of lying counts",
       [](const fs::path& f) { Put(f, Big(0x803, 4) + Big(0x7FFFFFFF, 4) + Big(0xFFFFFFFF, 4) + Big(0xFFFFFFFF, 4)); },
       {"data import idx:@,labels.idx o"}},
      {"idx of holes",
       [](const fs::path& f) {
         PutSparse(f, Big(0x803, 4) + Big(2000000, 4) + Big(32, 4) + Big(32, 4), 16 + int64_t{2000000} * 1024);
       },
       {"data import idx:@,labels.idx o"}},
  };
}

std::vector<Lie> HdfLies() {
  static const std::string row = Deflated("", 64 * kMiB, 15);
  const std::string test = "test --model h5.prototxt --weights w.safetensors";
  return {
      {"HDF5 bomb", [](const fs::path& f) { PutHdf5(f, [](hid_t g) { AddPackedRows(g, "0", 16, 16 * kMiB, row); }); },
       kWeights},
      {"HDF5 of one dataset by many names",
       [](const fs::path& f) {
         PutHdf5(f, [](hid_t g) {
           AddPackedRows(g, "0", 1, 15 * kMiB, row);
           for (int i = 1; i < 500; ++i) H5Lcreate_hard(g, "0", g, std::to_string(i).c_str(), H5P_DEFAULT, H5P_DEFAULT);
         });
       },
       kWeights},
      {"HDF5 of a giant chunk",
       [](const fs::path& f) { PutHdf5(f, [](hid_t g) { AddPackedRows(g, "0", 1, 512 * kMiB, row); }); }, kWeights},
      {"HDF5 of what was never written",
       [](const fs::path& f) { PutHdf5(f, [](hid_t g) { AddPackedRows(g, "0", 1 << 20, 1 << 20, ""); }); }, kWeights},
      {"HDF5 of deep groups",
       [](const fs::path& f) {
         PutHdf5(f, [](hid_t g) {
           std::string path = "g";
           for (int i = 0; i < 200; ++i, path += "/g")
             H5Gclose(H5Gcreate2(g, path.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
         });
       },
       kWeights},
      {"HDF5 of many groups",
       [](const fs::path& f) {
         PutHdf5(f, [](hid_t g) {
           for (int i = 0; i < 20000; ++i)
             H5Gclose(H5Gcreate2(g, std::to_string(i).c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
         });
       },
       kWeights},
      {"HDF5Data of giant rows",
       [](const fs::path& f) {
         const hid_t file = H5Fcreate(f.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
         AddPackedRows(file, "x", 16, 16 * kMiB, row);
         H5Fclose(file);
       },
       {test}},
  };
}

std::vector<Lie> PictureLies() {
  static const std::string giant = Big(0xFFFFFFFF, 4);
  return {
      {"PNG bomb", [](const fs::path& f) { Put(f, Png(30000, 30000, Zeros(15))); }, kPicture, ".png"},
      {"PNG cut", [](const fs::path& f) { Put(f, Png(8190, 8190, Deflated("", 60 * kMiB, 15))); }, kPicture, ".png"},
      {"PNG of a text bomb",
       [](const fs::path& f) {
         Put(f, Png(8, 8, Deflated("", 10, 15),
                    PngChunk("zTXt", std::string("a\0\0", 3) + Zeros(15)) +
                        PngChunk("iCCP", std::string("a\0\0", 3) + Zeros(15))));
       },
       kPicture, ".png"},
      {"JPEG of 4 gigapixels", [](const fs::path& f) { Put(f, Jpeg(0xC0, 65500, 65500)); }, kPicture, ".jpg"},
      {"JPEG cut", [](const fs::path& f) { Put(f, Jpeg(0xC0, 8190, 8190)); }, kPicture, ".jpg"},
      {"progressive JPEG cut", [](const fs::path& f) { Put(f, Jpeg(0xC2, 8190, 8190)); }, kPicture, ".jpg"},
      {"WebP of giant size",
       [](const fs::path& f) {
         Put(f, "RIFF" + Little(22, 4) + "WEBPVP8X" + Little(10, 4) + Little(0, 4) + std::string(6, '\xFF'));
       },
       kPicture, ".webp"},
      {"WebP cut",
       [](const fs::path& f) {
         Put(f, "RIFF" + Little(40, 4) + "WEBPVP8L" + Little(28, 4) + "\x2F" + Little(8189U | 8189U << 14U, 4) +
                    std::string(23, '\x55'));
       },
       kPicture, ".webp"},
      {"GIF of giant size",
       [](const fs::path& f) { Put(f, "GIF89a" + std::string(4, '\xFF') + std::string(30, '\0')); }, kPicture, ".gif"},
      {"GIF cut",
       [](const fs::path& f) {
         Put(f, "GIF89a" + Little(8190, 2) + Little(8190, 2) + std::string("\0\0\0", 3) + "," + Little(0, 4) +
                    Little(8190, 2) + Little(8190, 2) + std::string("\x80\0\0\0\0\0\0", 7) + "\x02" +
                    std::string(40, '\x44'));
       },
       kPicture, ".gif"},
      {"BMP of giant size",
       [](const fs::path& f) {
         Put(f, "BM" + Little(0, 8) + Little(54, 4) + Little(40, 4) + Little(0x7FFFFFFF, 4) + Little(0x80000000, 4) +
                    Little(1, 2) + Little(24, 2) + std::string(24, '\0'));
       },
       kPicture, ".bmp"},
      {"BMP of runs, cut",
       [](const fs::path& f) {
         Put(f, "BM" + Little(0, 8) + Little(54, 4) + Little(40, 4) + Little(8190, 4) + Little(8190, 4) + Little(1, 2) +
                    Little(8, 2) + Little(1, 4) + std::string(40, '\x01'));
       },
       kPicture, ".bmp"},
      {"a picture of holes", [](const fs::path& f) { PutSparse(f, Jpeg(0xC0, 100, 100), 3000 * kMiB); }, kPicture,
       ".jpg"},
      {"a small picture of holes", [](const fs::path& f) { PutSparse(f, Jpeg(0xC0, 100, 100), 250 * kMiB); }, kPicture,
       ".jpg"},
  };
}

std::vector<Lie> TextLies() {
  const auto net = [](const std::string& head, const std::string& unit, int64_t times, const std::string& tail = {}) {
    return [=](const fs::path& f) { Put(f, head + Repeated(unit, times) + tail); };
  };
  const std::vector<std::string> show = {"model show @"};
  return {
      {"text of holes", [](const fs::path& f) { PutSparse(f, "a,b\n", 9000 * kMiB); }, kTexts},
      {"an endless line", net("", "a", 20 * kMiB), kTexts},
      {"an endless row", net("y,a\n", ",", 15 * kMiB), {"data import csv:@ o", "data table @ o --target y"}},
      {"a net of many layers", net("", "layer{}", 2 * kMiB), show},
      {"a net of as many layers as are read", net("", "layer{}", 49000), show},
      {"a net of many small blocks", net("", "layer{param{}}", kMiB), show},
      {"a net of many fields", net("layer { name: 'a' ", "top: 'a' ", 1600000), show},
      {"a net of as many fields as are read", net("layer { name: 'a' ", "top: 'a' ", 990000, "}"), show},
      {"a net of unknown fields", net("", "a: 1\n", 990000), show},
      {"a net of many numbers", net("input_dim: [", "1,", 7 * kMiB, "1]"), show},
      {"a net of one text", net("name: '", "a", 15 * kMiB, "'"), show},
      {"a deep net", net("", "layer{", 2 * kMiB), show},
      {"a net of unknown deep blocks", net("", "a<", 7 * kMiB), show},
  };
}

std::vector<Lie> WeightLies() {
  const std::vector<std::string> nets = {"model convert @ o.safetensors", "compare @ b.npz"};
  const std::vector<std::string> means = {kInfer + "p.png --mean @"};
  const auto tensors = [](const std::string& header, int64_t bytes) {
    return [=](const fs::path& f) { PutSparse(f, Little(header.size(), 8) + header, std::ssize(header) + 8 + bytes); };
  };
  return {
      {"a million layers", [](const fs::path& f) { Put(f, Repeated(Field(100, ""), kMiB)); }, nets, ".caffemodel"},
      {"a million old layers", [](const fs::path& f) { Put(f, Repeated(Field(2, ""), kMiB)); }, nets, ".caffemodel"},
      {"a layer of a million blobs", [](const fs::path& f) { Put(f, Field(100, Repeated(Field(7, ""), kMiB - 2))); },
       nets, ".caffemodel"},
      {"a layer of many parameters", [](const fs::path& f) { Put(f, Field(100, Repeated(Field(106, ""), kMiB - 2))); },
       nets, ".caffemodel"},
      {"a blob of a giant shape",
       [](const fs::path& f) {
         const std::string shape = Field(7, Field(1, Varint(UINT32_MAX) + Varint(UINT32_MAX)));
         Put(f, Field(100, Field(1, "ip") + Field(7, shape)));
       },
       nets, ".caffemodel"},
      {"a shape of many dimensions",
       [](const fs::path& f) {
         Put(f, Field(100, Field(1, "ip") + Field(7, Field(7, Field(1, std::string(40 * kMiB, '\1'))))));
       },
       nets, ".caffemodel"},
      {"weights of holes", [](const fs::path& f) { PutSparse(f, Field(1, "net"), 2000 * kMiB); }, nets, ".caffemodel"},
      {"a mean of holes", [](const fs::path& f) { PutSparse(f, Field(7, Field(1, "\1")), 2000 * kMiB); }, means,
       ".binaryproto"},
      {"a mean of a giant shape",
       [](const fs::path& f) { Put(f, Field(7, Field(1, Varint(UINT32_MAX) + Varint(UINT32_MAX)))); }, means,
       ".binaryproto"},
      {"a long header", tensors(std::string(90 * kMiB, '['), 0), kWeights, ".safetensors"},
      {"many tensors",
       [](const fs::path& f) {
         std::string header = "{";
         for (int i = 0; i < 400000; ++i)
           header += StrCat("\"a", i, "\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},");
         Put(f, Little(header.size(), 8) + header);
       },
       kWeights, ".safetensors"},
      {"much metadata",
       [](const fs::path& f) {
         std::string header = "{\"__metadata__\":{";
         for (int i = 0; i < 3000000; ++i) header += StrCat("\"", i, "\":\"\",");
         Put(f, Little(header.size(), 8) + header);
       },
       kWeights, ".safetensors"},
      {"tensors beyond the file",
       tensors(R"({"a":{"dtype":"F32","shape":[4294967296],"data_offsets":[0,17179869184]}})", 0), kWeights,
       ".safetensors"},
      {"tensors of holes",
       tensors(R"({"a":{"dtype":"F32","shape":[1073741824],"data_offsets":[0,4294967296]}})", 4096 * kMiB), kWeights,
       ".safetensors"},
      {"a solver's state of holes",
       [](const fs::path& f) { PutSparse(f, "\x08\x01", 2000 * kMiB); },
       {"train solver.prototxt --snapshot @"},
       ".solverstate"},
      {"a solver's state of many blobs",
       [](const fs::path& f) { Put(f, "\x08\x01" + Repeated(Field(3, ""), kMiB - 2)); },
       {"train solver.prototxt --snapshot @"},
       ".solverstate"},
  };
}

std::vector<Lie> DatabaseLies() {
  const auto database = [](uint64_t bytes, uint64_t entries) {
    return [=](const fs::path& f) {
      fs::create_directories(f);
      PutSparse(f / "data.mdb", LmdbOf(bytes, entries),
                static_cast<int64_t>((bytes + 16 + 4095) / 4096 * 4096) + 3 * 4096);
    };
  };
  const std::vector<std::string> readers = {
      "data inspect @",   "data verify @",        "data mean @ m.binaryproto",
      "data shuffle @ o", "data import lmdb:@ o", "test --model db.prototxt --weights w.safetensors",
      "data whiten @",    "data check @"};
  return {
      {"a record of 4 GiB", database(0xFFFFFFFFULL, 1), readers},
      {"a record of 200 MiB of zeros", database(200 * kMiB, 1), {readers[2], readers[4], readers[5], readers[6]}},
      {"a database of 2^60 records", database(5000, uint64_t{1} << 60U), readers},
  };
}

std::vector<Lie> XmlLies() {
  const std::vector<std::string> boxes = {"data import boxes:pairs.txt,map.prototxt o", "data tracks @ @"};
  const auto xml = [](const std::string& head, const std::string& unit = {}, int64_t times = 0,
                      const std::string& tail = {}) {
    return [=](const fs::path& f) { Put(f, head + Repeated(unit, times) + tail); };
  };
  std::string laughs = "<?xml version=\"1.0\"?><!DOCTYPE annotation [<!ENTITY a0 \"ha\">";
  for (int i = 1; i < 40; ++i) laughs += StrCat("<!ENTITY a", i, " \"&a", i - 1, ";&a", i - 1, ";\">");
  return {
      {"entities of entities", xml(laughs + "]><annotation><size><width>&a39;</width></size></annotation>"), boxes,
       ".xml"},
      {"a long entity, often",
       xml(StrCat("<!DOCTYPE annotation [<!ENTITY a \"", std::string(kMiB, 'a'), "\">]><annotation><size><width>"),
           "&a;", kMiB / 4, "</width></size></annotation>"),
       boxes, ".xml"},
      {"XML of many elements", xml("<annotation>", "<a/>", 2 * kMiB - 10), boxes, ".xml"},
      {"XML that is deep", xml("<annotation>", "<a>", 2 * kMiB), boxes, ".xml"},
      {"XML of many attributes", xml("<annotation ", "a='' ", kMiB, "/>"), boxes, ".xml"},
      {"XML that declares attributes",
       xml("<!DOCTYPE annotation [<!ATTLIST annotation ", "a CDATA '' ", 300000, ">]><annotation/>"), boxes, ".xml"},
      {"XML of holes", [](const fs::path& f) { PutSparse(f, "<annotation>", 3000 * kMiB); }, boxes, ".xml"},
      {"XML too long", xml("<annotation>", " ", 60 * kMiB), boxes, ".xml"},
      {"a video of one giant picture",
       [](const fs::path& f) {
         PutSparse(f, "RIFF" + Little(0xFFFFFFF0, 4) + "AVI 00dc" + Little(3U << 30U, 4) + "\xFF\xD8", 3100 * kMiB);
       },
       {kInfer + "@"},
       ".avi"},
      {"a video of nothing",
       [](const fs::path& f) { PutSparse(f, "RIFF" + Little(100, 4) + "AVI ", 3000 * kMiB); },
       {kInfer + "@"},
       ".avi"},
  };
}

class HostileData : public CliTest {
 protected:
  static void SetUpTestSuite() {
    CliTest::SetUpTestSuite();
    const auto put = [](const char* name, const std::string& text) { Put(folder_ / name, text); };
    put("deploy.prototxt",
        "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 1 dim: 2 dim: 2 } } }\n"
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param { num_output: 2 } }\n"
        "layer { name: 'p' type: 'Softmax' bottom: 'ip' top: 'p' }");
    const std::string ip =
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param { num_output: 2 } }";
    put("db.prototxt",
        "layer { name: 'd' type: 'Data' top: 'x' data_param { source: 'lie' backend: LMDB batch_size: 1 } }\n" + ip);
    put("h5.prototxt",
        "layer { name: 'd' type: 'HDF5Data' top: 'x' hdf5_data_param { source: 'h5.txt' batch_size: 2 } }\n" + ip);
    put("h5.txt", "lie\n");
    put("train.prototxt",
        "layer { name: 'd' type: 'DummyData' top: 'x' top: 'y' dummy_data_param { shape { dim: 2 dim: 4 } shape { dim: "
        "2 } "
        "data_filler { type: 'uniform' } data_filler { type: 'constant' } } }\n" +
            ip + "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'y' top: 'l' }");
    put("solver.prototxt", "net: 'train.prototxt' base_lr: 0.1 lr_policy: 'fixed' max_iter: 4");
    put("pairs.txt", "p.png lie.xml\n");
    put("map.prototxt", "item { name: 'a' label: 1 }");
    put("p.png", Png(8, 8, Deflated("", 72, 15)));
    put("t", "");
    put("labels.idx", Big(0x801, 4) + Big(10, 4) + std::string(10, '\0'));
    put("coco.json",
        R"({"images":[{"id":1,"file_name":"p.jpg"}],"categories":[{"id":1,"name":"a"}],"annotations":[{"id":1,"image_id":1,"category_id":1,"bbox":[0,0,1,1]}]})");
    fs::create_directories(folder_ / "torch");
    fs::copy(folder_ / "deploy.prototxt", folder_ / "torch/train_val.prototxt", fs::copy_options::overwrite_existing);
    put("torch/names.torch.tsv", "@module\tm\nfc.weight\tip/0\nfc.bias\tip/1\n");
    NamedBlob weight{.layer = "ip", .index = 0, .shape = Shape({2, 4}), .values = std::vector<float>(8)};
    NamedBlob bias{.layer = "ip", .index = 1, .shape = Shape({2}), .values = std::vector<float>(2)};
    WriteSafetensors(folder_ / "w.safetensors", std::vector<NamedBlob>{weight, bias}, {});
  }

  static void ExpectRefused(const MeasuredRun& run, const std::string& what) {
    if (std::getenv("MOKA_HOSTILE_VERBOSE") != nullptr) {
      std::printf("%5.2f s %5lld MiB  %3d  %s\n        %s\n", run.cpu_seconds,
                  static_cast<long long>(run.peak_bytes / kMiB), run.code, what.c_str(),
                  run.said.substr(0, 300).c_str());
    }
    ExpectWithinLimits(run, what);
    EXPECT_EQ(run.signal, 0) << what;
    EXPECT_GT(run.code, 0) << what << "\n" << run.said;
    EXPECT_NE(run.code, static_cast<int>(ErrorKind::kUsage)) << what << " is no command\n" << run.said;
    EXPECT_NE(run.code, static_cast<int>(ErrorKind::kInternal)) << what << "\n" << run.said;
    EXPECT_NE(run.said.find("error: "), std::string::npos) << what << "\n" << run.said;
  }

  static void RefuseAll(const std::vector<Lie>& lies) {
    for (const Lie& lie : lies) {
      const std::string name = "lie" + lie.ending;
      lie.make(folder_ / name);
      Put(folder_ / "in.txt", name + " 0\n");
      for (const std::string& command : lie.commands) {
        const MeasuredRun run = RunMeasured(WordsOf(command, "@", name), folder_);
        ExpectRefused(run, StrCat(lie.name, ": ", command));
        std::error_code ignored;
        for (const char* left : {"o", "o.partial", "o.safetensors", "o.txt", "m.binaryproto"})
          fs::remove_all(folder_ / left, ignored);
      }
      fs::remove_all(folder_ / name);
    }
  }
};

TEST_F(HostileData, Json) { RefuseAll(JsonLies()); }
TEST_F(HostileData, Packed) { RefuseAll(PackedLies()); }
TEST_F(HostileData, Hdf5) { RefuseAll(HdfLies()); }
TEST_F(HostileData, Pictures) { RefuseAll(PictureLies()); }
TEST_F(HostileData, Texts) { RefuseAll(TextLies()); }
TEST_F(HostileData, WeightsAndStates) { RefuseAll(WeightLies()); }
TEST_F(HostileData, Databases) { RefuseAll(DatabaseLies()); }
TEST_F(HostileData, XmlAndVideo) { RefuseAll(XmlLies()); }

TEST_F(HostileData, TheStandardInputWithoutAnEnd) {
  for (const std::string& command : {kInfer + "-", std::string("data vocabulary /dev/stdin o.txt")}) {
    ExpectRefused(RunMeasured(WordsOf(command, "@", ""), folder_, "/dev/zero"), command);
  }
}

}  // namespace
}  // namespace moka
