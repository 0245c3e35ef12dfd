// A small set in the layout and under the names of ILSVRC-2012's published files, with their oddities: an archive a
// class inside the training's, not in alphabetical order; the challenge's own numbers of classes; a PNG and a CMYK
// picture under the name .JPEG, grey ones.
#pragma once

#include <turbojpeg.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/text.h"
#include "data/image/image.h"
#include "tests/data/import/tar_fixture.h"

namespace moka {

// The synsets of its classes in the order of the challenge's numbers, from 1: not alphabetical.
inline const std::vector<std::string>& MadeSynsets() {
  static const std::vector<std::string> synsets = {"n02119789", "n01440764", "n02105855"};
  return synsets;
}

// A picture whose brightness tells its class.
inline Image MadePicture(int64_t width, int64_t height, int64_t channels, int seed) {
  Image image;
  image.Resize(width, height, channels);
  for (size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<uint8_t>((static_cast<int>(i / 64) * 3 + seed * 60) % 256);
  return image;
}

inline std::string MadeCmykJpeg(int width, int height) {
  const std::vector<unsigned char> pixels(static_cast<size_t>(width) * static_cast<size_t>(height) * 4, 180);
  tjhandle handle = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): TurboJPEG's
  tjCompress2(handle, pixels.data(), width, 0, height, TJPF_CMYK, &bytes, &size, TJSAMP_444, 90, 0);
  std::string file(reinterpret_cast<const char*>(bytes), size);
  tjFree(bytes);
  tjDestroy(handle);
  return file;
}

namespace made_imagenet {

inline std::string Little(uint64_t value, size_t bytes) {
  std::string text(bytes, '\0');
  std::memcpy(text.data(), &value, bytes);
  return text;
}

// An element of a MATLAB file, filled up to eight bytes.
inline std::string Element(uint32_t type, std::string data) {
  const std::string tag = Little(type, 4) + Little(data.size(), 4);
  data.resize((data.size() + 7) / 8 * 8, '\0');
  return tag + data;
}

inline std::string Matrix(uint32_t kind, const std::vector<uint32_t>& dims, const std::string& name,
                          const std::string& rest) {
  std::string sizes;
  for (const uint32_t dim : dims) sizes += Little(dim, 4);
  return Element(14, Element(6, Little(kind, 4) + Little(0, 4)) + Element(5, sizes) + Element(1, name) + rest);
}

inline std::string Number(double value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return Matrix(6, {1, 1}, "", Element(9, bytes));
}

// Characters of 16 bits, as MATLAB writes them.
inline std::string Characters(const std::string& text) {
  std::string wide;
  for (const char c : text) wide += std::string{c, '\0'};
  return Matrix(4, {1, static_cast<uint32_t>(text.size())}, "", Element(4, wide));
}

inline std::string MatHeader() {
  std::string header(124, ' ');
  header.replace(0, 19, "MATLAB 5.0 MAT-file");
  return header + std::string("\0\1IM", 4);
}

// A variable as a compressed element.
inline std::string Packed(const std::string& variable) {
  std::string packed(compressBound(variable.size()), '\0');
  uLongf bytes = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &bytes, reinterpret_cast<const Bytef*>(variable.data()),
           variable.size());
  packed.resize(bytes);
  return Little(15, 4) + Little(packed.size(), 4) + packed;
}

}  // namespace made_imagenet

// meta.mat: the synsets by the challenge's numbers, and one above them that no picture is of. `is_packed`: as MATLAB
// saves it. `first`: the number of the first.
inline std::string MadeMeta(bool is_packed = true, double first = 1) {
  using namespace made_imagenet;
  constexpr size_t kStep = 32;
  std::string names;
  const std::array<std::string, 4> fields = {"ILSVRC2012_ID", "WNID", "words", "num_children"};
  for (std::string field : fields) {
    field.resize(kStep, '\0');
    names += field;
  }
  std::string cells;
  for (size_t i = 0; i <= MadeSynsets().size(); ++i) {
    const bool is_leaf = i < MadeSynsets().size();
    cells += Number(i == 0 ? first : static_cast<double>(i + 1)) +
             Characters(is_leaf ? MadeSynsets()[i] : "n00001740") +
             Characters(is_leaf ? StrCat("thing ", i + 1, ", object") : "entity") + Number(is_leaf ? 0 : 3);
  }
  const auto elements = static_cast<uint32_t>(MadeSynsets().size() + 1);
  // The length of names is a short element: type and size in one word, the number beside them.
  const std::string variable =
      Matrix(2, {elements, 1}, "synsets", Little(5 | (4U << 16U), 4) + Little(kStep, 4) + Element(1, names) + cells);
  return MatHeader() + (is_packed ? Packed(variable) : variable);
}

// The class of validation picture i, from 1, by the challenge's numbers, from 1.
inline int MadeTruth(int picture) { return 1 + (picture * 2) % 3; }

// Writes ILSVRC2012_img_train.tar with `pictures` a class, ILSVRC2012_img_val.tar with as many, and the kit.
inline void MakeImagenet(const std::filesystem::path& folder, int pictures) {
  const std::string end(1024, '\0');
  std::filesystem::create_directories(folder);
  std::string train;
  for (size_t c = 0; c < MadeSynsets().size(); ++c) {
    const std::string& synset = MadeSynsets()[c];
    std::string archive;
    for (int i = 0; i < pictures; ++i) {
      const int64_t width = 300 + 20 * i;
      const int64_t channels = i == 1 ? 1 : 3;  // one of each class is grey
      std::string bytes = EncodeJpeg(MadePicture(width, 280, channels, static_cast<int>(c)));
      if (c == 2 && i == 0) bytes = EncodePng(MadePicture(width, 280, 3, 2));
      if (c == 1 && i == 0) bytes = MadeCmykJpeg(320, 300);
      archive += TarMember(StrCat(synset, "_", 10 * i + 3, ".JPEG"), bytes);
    }
    train += TarMember(synset + ".tar", archive + end);
  }
  WriteFileAtomically(folder / "ILSVRC2012_img_train.tar", train + end);
  std::string val;
  std::string truth;
  for (int i = 1; i <= pictures; ++i) {
    std::string digits = std::to_string(i);
    digits.insert(0, 8 - digits.size(), '0');
    const int label = MadeTruth(i);
    val += TarMember(StrCat("ILSVRC2012_val_", digits, ".JPEG"),
                     EncodeJpeg(MadePicture(310, 290 + i, i == 2 ? 1 : 3, label - 1)));
    truth += StrCat(label, "\n");
  }
  WriteFileAtomically(folder / "ILSVRC2012_img_val.tar", val + end);
  const std::string kit = "ILSVRC2012_devkit_t12/";
  WriteFileAtomically(
      folder / "ILSVRC2012_devkit_t12.tar.gz",
      Gzipped(TarMember(kit + "readme.txt", "read me\n") + TarMember(kit + "data/meta.mat", MadeMeta()) +
                  TarMember(kit + "data/ILSVRC2012_validation_ground_truth.txt", truth) + end,
              folder / "scratch"));
  std::filesystem::remove(folder / "scratch");
}

}  // namespace moka
