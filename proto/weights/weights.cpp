// Chooses a reader by the file's first bytes and never by its name, then runs the checks that all formats share: finite
// values, no layer twice, no file of another kind.
#include "proto/weights/weights.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/open_file.h"
#include "core/text.h"
#include "proto/content.h"
#include "proto/text/text_format.h"
#include "proto/weights/blob_bytes.h"
#include "proto/weights/blob_name.h"
#include "proto/weights/caffemodel.h"
#include "proto/weights/hdf5_file.h"
#include "proto/weights/npz.h"
#include "proto/weights/safetensors.h"
#include "proto/weights/weight_diffs.h"
#include "proto/wire.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLimitBytes = int64_t{64} << 30;
constexpr size_t kHeadBytes = 4096;
constexpr int64_t kLargeBytes = int64_t{64} << 20;  // not read to say that it is an image
constexpr std::string_view kExpected = "weights (.caffemodel, .caffemodel.h5, .safetensors or .npz)";
constexpr std::string_view kNetKey = "caffe_net";  // of safetensors' metadata
constexpr std::string_view kGroup = "data";        // of Caffe's HDF5 layout
constexpr std::string_view kDiffGroup = "diff";

// Counts the values that are not finite, and names the first blobs that have some.
int64_t CountNonFinite(const std::vector<NamedBlob>& blobs, std::string& where) {
  constexpr int kNamed = 3;
  int64_t count = 0;
  int found = 0;
  for (const NamedBlob& blob : blobs) {
    const int64_t of_blob =
        std::count_if(blob.values.begin(), blob.values.end(), [](float v) { return !std::isfinite(v); });
    count += of_blob;
    if (of_blob == 0 || ++found > kNamed) continue;
    where += StrCat(found == 1 ? "" : ", ", "blob ", blob.index, " of layer \"", Printable(blob.layer), "\" ", of_blob,
                    " of ", blob.values.size());
  }
  if (found > kNamed) where += StrCat(", ", found - kNamed, " blobs more");
  return count;
}

// "conv1/0" is blob 0 of conv1. False for other names.
bool SplitDataset(const std::string& path, NamedBlob& blob) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return false;
  const std::string index = path.substr(slash + 1);
  const auto [end, error] = std::from_chars(index.data(), index.data() + index.size(), blob.index);
  if (error != std::errc{} || end != index.data() + index.size() || blob.index < 0) return false;
  blob.layer = path.substr(0, slash);
  return true;
}

Weights WeightsFromHdf5(const Hdf5Reader& reader, const std::string& file) {
  const auto fail = [&](std::string text) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file}, std::move(text));
  };
  if (!reader.Has(std::string(kGroup))) {
    fail(StrCat("expected ", kExpected, ", but this HDF5 file ",
                reader.Has("history") ? "is a solver's state (.solverstate.h5)" : "has no group \"data\""));
  }
  Weights weights;
  weights.format = "hdf5";
  for (const std::string& path : reader.Datasets(std::string(kGroup))) {
    NamedBlob blob;
    if (!SplitDataset(path, blob)) {
      fail(StrCat("dataset \"", Printable(path), "\" in group \"data\" is not named LAYER/INDEX"));
    }
    Hdf5Tensor tensor = reader.Read(StrCat(kGroup, "/", path));
    blob.shape = tensor.shape;
    blob.values = std::move(tensor.values);
    weights.blobs.push_back(std::move(blob));
  }
  // Names are sorted as texts, so "10" came before "2".
  std::ranges::stable_sort(weights.blobs, [](const NamedBlob& a, const NamedBlob& b) {
    return std::pair(std::string_view(a.layer), a.index) < std::pair(std::string_view(b.layer), b.index);
  });
  return weights;
}

// Arrays of NumPy by names as safetensors has them.
Weights WeightsFromNpz(std::map<std::string, NumpyArray> arrays) {
  Weights weights;
  weights.format = "npz";
  for (auto& [name, array] : arrays) {
    NamedBlob& blob = weights.blobs.emplace_back();
    SplitBlobName(name, blob);
    blob.shape = array.shape;
    blob.values = std::move(array.values);
  }
  return weights;
}

// A text as a literal of Python.
std::string PythonText(const std::string& text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\\' || c == '"') quoted += '\\';
    quoted += c;
  }
  return StrCat("\"", Printable(quoted), "\"");
}

// To read a pickle is to run what it says: PyTorch itself converts it.
[[noreturn]] void RefusePickle(const std::string& file) {
  const std::string to = fs::path(file).replace_extension(".safetensors").string();
  Error error(ErrorKind::kBadData, SourcePlace{.file = file},
              StrCat("expected ", kExpected, ", but this is ", Describe(Content::kPickle), ", which is a program"),
              "these three lines of Python convert it (to a file that moka import takes, where the net is PyTorch's):");
  error.AddNote("import torch, safetensors.torch");
  error.AddNote(StrCat("state = torch.load(", PythonText(file), ", map_location=\"cpu\", weights_only=True)"));
  error.AddNote(
      StrCat("safetensors.torch.save_file({k: v.clone() for k, v in state.get(\"state_dict\", state).items()}, ",
             PythonText(to), ")"));
  throw error;
}

// Counts, and warns or refuses. Errors: kBadData for a file without weights and for a layer with blobs that is there
// twice.
Weights Checked(Weights weights, const std::string& file, BadNumbers bad_numbers) {
  if (weights.blobs.empty()) {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file}, "the file holds no weights");
  }
  std::set<std::pair<std::string_view, int>> names;
  for (const NamedBlob& blob : weights.blobs) {
    if (names.emplace(blob.layer, blob.index).second) continue;
    throw Error(ErrorKind::kBadData, SourcePlace{.file = file},
                StrCat("layer \"", Printable(blob.layer), "\" is there twice, with blobs both times"));
  }
  std::string where;
  weights.non_finite = CountNonFinite(weights.blobs, where);
  if (weights.non_finite > 0) {
    const std::string text = StrCat(weights.non_finite, " weights are NaN or infinite (", where, ")");
    if (bad_numbers == BadNumbers::kRefused) throw Error(ErrorKind::kBadData, SourcePlace{.file = file}, text);
    LogWarning(StrCat(file, ": ", text));
  }
  return weights;
}

void RefuseLarge(int64_t bytes, const std::string& file) {
  if (bytes <= kWireLimitBytes) return;
  throw Error(ErrorKind::kBadData, SourcePlace{.file = file},
              StrCat("the file has ", BytesText(bytes), ", more than protobuf's 2 GiB"),
              "weights of this size go in .safetensors or .caffemodel.h5");
}

// Kinds that are told from a file's first bytes and are never weights.
bool IsOfAnotherKind(Content content) {
  switch (content) {
    case Content::kText:
    case Content::kUtf16Text:
    case Content::kHtml:
    case Content::kOnnx:
    case Content::kZip:
    case Content::kPickle:
    case Content::kGzip:
    case Content::kImage:
    case Content::kLmdb:
    case Content::kZeros: return true;
    default: return false;
  }
}

void RefuseByHead(const fs::path& path, const std::string& file) {
  std::string head(kHeadBytes, '\0');
  head.resize(static_cast<size_t>(OpenFile::ForReading(path).ReadAt(0, head.data(), std::ssize(head), path)));
  WeightsFromBytes(head, file);
}

}  // namespace

void BlobToProto(const Shape& shape, std::span<const float> values, BlobProto* proto) {
  Require(shape.Count() == static_cast<int64_t>(values.size()), "BlobToProto: the values fill the shape");
  proto->Clear();
  for (const int64_t dim : shape.dims()) proto->mutable_shape()->add_dim(dim);
  proto->mutable_shape();  // present for a scalar too
  proto->mutable_data()->Add(values.begin(), values.end());
}

Weights WeightsFromBytes(std::string_view bytes, const std::string& file, BadNumbers bad_numbers) {
  const Content content = RecognizeContent(bytes.substr(0, kHeadBytes));
  if (content == Content::kPickle) RefusePickle(file);
  if (content == Content::kSafetensors) return Checked(ReadSafetensors(bytes, file), file, bad_numbers);
  if (content == Content::kHdf5) return Checked(WeightsFromHdf5(Hdf5Reader(bytes, file), file), file, bad_numbers);
  if (content == Content::kNumpyZip) return Checked(WeightsFromNpz(NpzFromBytes(bytes, file)), file, bad_numbers);
  Weights weights;
  ReadAs(Content::kNetBinary, bytes, file, kExpected, [&] {
    RefuseLarge(static_cast<int64_t>(bytes.size()), file);
    weights = ReadCaffemodel(bytes, file);
  });
  return Checked(std::move(weights), file, bad_numbers);
}

Weights ReadWeights(const fs::path& path, BadNumbers bad_numbers) {
  const std::string file = path.string();
  const Content content = RecognizeFile(path);
  if (content == Content::kHdf5) return Checked(WeightsFromHdf5(Hdf5Reader(path), file), file, bad_numbers);
  if (content == Content::kNumpyZip) return Checked(WeightsFromNpz(ReadNpz(path)), file, bad_numbers);
  // Said before gigabytes are read.
  std::error_code code;
  const auto bytes = static_cast<int64_t>(fs::is_regular_file(path, code) ? fs::file_size(path, code) : 0);
  if (content != Content::kSafetensors) RefuseLarge(bytes, file);
  if (bytes > kLargeBytes && IsOfAnotherKind(content)) RefuseByHead(path, file);
  return WeightsFromBytes(ReadFile(path, kLimitBytes), file, bad_numbers);
}

void WriteHdf5Weights(const fs::path& path, const NetParameter& net, std::span<const NamedBlob> blobs) {
  WriteHdf5WeightsWithDiffs(path, net, blobs, {});
}

void WriteHdf5WeightsWithDiffs(const fs::path& path, const NetParameter& net, std::span<const NamedBlob> blobs,
                               std::span<const std::vector<float>> diffs) {
  Require(diffs.empty() || diffs.size() == blobs.size(), "WriteHdf5WeightsWithDiffs: one diff a blob");
  Hdf5Writer writer(path);
  for (const std::string_view group : {kGroup, kDiffGroup}) {
    if (group == kDiffGroup && diffs.empty()) continue;
    writer.AddGroup(std::string(group));
    for (const LayerParameter& layer : net.layer()) {
      if (!layer.name().empty()) writer.AddGroup(StrCat(group, "/", layer.name()));
    }
    for (size_t i = 0; i < blobs.size(); ++i) {
      const std::vector<float>& values = group == kGroup ? blobs[i].values : diffs[i];
      writer.AddFloats(StrCat(group, "/", blobs[i].layer, "/", blobs[i].index), blobs[i].shape, values);
    }
  }
  writer.Commit();
}

void AddNetToMetadata(const NetParameter& net, std::map<std::string, std::string>& metadata) {
  if (net.layer_size() == 0) return;
  NetParameter layers;
  if (net.has_name()) layers.set_name(net.name());
  for (const LayerParameter& layer : net.layer()) {
    LayerParameter& copy = *layers.add_layer();
    if (layer.has_name()) copy.set_name(layer.name());
    if (layer.has_type()) copy.set_type(layer.type());
    *copy.mutable_bottom() = layer.bottom();
    *copy.mutable_top() = layer.top();
  }
  metadata[std::string(kNetKey)] = ToText(layers);
}

NetParameter NetOf(const Weights& weights) {
  if (weights.net.layer_size() > 0) return weights.net;
  NetParameter net;
  const auto text = weights.metadata.find(std::string(kNetKey));
  if (text == weights.metadata.end()) return net;
  try {
    ParseText(text->second, StrCat("metadata ", kNetKey), net);
  } catch (const Error& error) {
    LogWarning(StrCat("the weights' net is passed over: ", error.what()));
    net.Clear();
  }
  return net;
}

NamedBlob ReadBlobProtoFile(const fs::path& path) {
  const std::string file = path.string();
  const std::string bytes = ReadFile(path, kWireLimitBytes);
  NamedBlob blob;
  if (RecognizeContent(bytes) == Content::kNumpy) {
    NumpyArray array = ParseNpy(bytes, file);
    blob = {{}, 0, array.shape, std::move(array.values)};
  } else {
    ReadAs(Content::kBlob, bytes, file, "a blob (.binaryproto or .npy)", [&] {
      try {
        blob = BlobFromWire(WireReader(bytes, file, "BlobProto"), "the blob");
      } catch (const Error& error) {
        throw Error(error.kind(), SourcePlace{.file = file}, error.text(), error.hint());
      }
    });
  }
  if (blob.values.empty()) throw Error(ErrorKind::kBadData, SourcePlace{.file = file}, "the blob has no values");
  const auto wrong = std::ranges::find_if(blob.values, [](float value) { return !std::isfinite(value); });
  if (wrong == blob.values.end()) return blob;
  throw Error(ErrorKind::kBadData, SourcePlace{.file = file},
              StrCat("value ", wrong - blob.values.begin(), " of ", blob.shape.ToString(), " is ", *wrong,
                     ", expected finite numbers"));
}

void WriteBlobProtoFile(const fs::path& path, const Shape& shape, std::span<const float> values) {
  AtomicFile file(path);
  AppendBlob(shape, values, file);
  file.Commit();
}

}  // namespace moka
