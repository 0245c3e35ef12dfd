// Files that lie about their size, their nesting, their ratio or their type: small on disk, written by the byte.
#pragma once

#include <hdf5.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/text.h"
#include "tests/data/import/tar_fixture.h"

namespace moka::hostile {

namespace fs = std::filesystem;

inline constexpr int64_t kMiB = int64_t{1} << 20;

inline void Put(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// The bytes, and behind them holes up to the size.
inline void PutSparse(const fs::path& path, std::string_view bytes, int64_t size) {
  Put(path, bytes);
  fs::resize_file(path, static_cast<uintmax_t>(size));
}

inline std::string Repeated(std::string_view text, int64_t times) {
  std::string all;
  all.reserve(text.size() * static_cast<size_t>(times));
  for (int64_t i = 0; i < times; ++i) all += text;
  return all;
}

// Little- or big-endian bytes of a number.
inline std::string Little(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xFFU);
  return text;
}
inline std::string Big(uint64_t value, int bytes) {
  std::string text = Little(value, bytes);
  std::reverse(text.begin(), text.end());
  return text;
}

// deflate's stream of a head and so many bytes of one kind behind it. `window`: 15 with zlib's frame, 31 with gzip's,
// -15 without any.
inline std::string Deflated(std::string_view head, int64_t bytes, int window, char fill = '\0') {
  z_stream stream{};
  deflateInit2(&stream, 1, Z_DEFLATED, window, 9, Z_DEFAULT_STRATEGY);
  std::string packed;
  std::string out(1 << 16, '\0');
  const auto push = [&](std::string_view part, int flush) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
    stream.avail_in = static_cast<uInt>(part.size());
    do {
      stream.next_out = reinterpret_cast<Bytef*>(out.data());
      stream.avail_out = static_cast<uInt>(out.size());
      deflate(&stream, flush);
      packed.append(out, 0, out.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  };
  push(head, Z_NO_FLUSH);
  const std::string same(1 << 16, fill);
  for (int64_t left = bytes; left > 0; left -= std::ssize(same)) {
    push(std::string_view(same).substr(0, static_cast<size_t>(std::min<int64_t>(left, std::ssize(same)))), Z_NO_FLUSH);
  }
  push({}, Z_FINISH);
  deflateEnd(&stream);
  return packed;
}

// ---- zip ----

struct ZipMember {
  std::string name;
  std::string packed;     // by deflate, without a frame
  uint32_t unpacked = 0;  // bytes, as the directory states them
};

// `links`: how many entries of the directory lead to each member.
inline std::string Zip(const std::vector<ZipMember>& members, int links = 1) {
  std::string bytes;
  std::string directory;
  int entries = 0;
  for (const ZipMember& member : members) {
    const uint64_t offset = bytes.size();
    const auto head = [&](const std::string& name) {
      return Little(20, 2) + Little(0, 2) + Little(8, 2) + Little(0, 4) + Little(0, 4) +
             Little(member.packed.size(), 4) + Little(member.unpacked, 4) + Little(name.size(), 2) + Little(0, 2);
    };
    bytes += "PK\x03\x04" + head(member.name) + member.name + member.packed;
    for (int i = 0; i < links; ++i, ++entries) {
      const std::string name = links == 1 ? member.name : StrCat("a", i, ".npy");
      directory += "PK\x01\x02" + Little(20, 2) + head(name) + Little(0, 2) + Little(0, 2) + Little(0, 2) +
                   Little(0, 4) + Little(offset, 4) + name;
    }
  }
  const uint64_t at = bytes.size();
  const auto count = static_cast<uint64_t>(entries);
  return bytes + directory + "PK\x05\x06" + Little(0, 4) + Little(count, 2) + Little(count, 2) +
         Little(directory.size(), 4) + Little(at, 4) + Little(0, 2);
}

inline std::string NpyHead(const std::string& type, const std::string& shape) {
  std::string header = StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': ", shape, ", }\n");
  return "\x93NUMPY\x01" + std::string(1, '\0') + Little(header.size(), 2) + header;
}

// ---- pictures ----

inline std::string PngChunk(const std::string& kind, const std::string& data) {
  const std::string body = kind + data;
  const uint64_t sum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return Big(data.size(), 4) + body + Big(sum, 4);
}

// Grey, 8 bits; `chunks` stand in front of the pixels.
inline std::string Png(int64_t width, int64_t height, const std::string& packed, const std::string& chunks = {}) {
  return "\x89PNG\r\n\x1A\n" +
         PngChunk("IHDR", Big(static_cast<uint64_t>(width), 4) + Big(static_cast<uint64_t>(height), 4) +
                              std::string("\x08\x00\x00\x00\x00", 5)) +
         chunks + PngChunk("IDAT", packed) + PngChunk("IEND", "");
}

// The headers of a JPEG of three components, each at full size, and the beginning of a scan. `frame`: 0xC0 baseline,
// 0xC2 progressive.
inline std::string Jpeg(int frame, uint64_t width, uint64_t height) {
  const auto segment = [](int marker, const std::string& body) {
    return std::string(1, '\xFF') + static_cast<char>(marker) + Big(body.size() + 2, 2) + body;
  };
  std::string codes(16, '\0');
  codes[0] = 1;  // one code of one bit
  return "\xFF\xD8" + segment(0xDB, std::string(1, '\0') + std::string(64, '\1')) +
         segment(frame, "\x08" + Big(height, 2) + Big(width, 2) + "\x03" +
                            std::string("\x01\x11\x00\x02\x11\x00\x03\x11\x00", 9)) +
         segment(0xC4, std::string(1, '\0') + codes + std::string(1, '\0')) +
         segment(0xC4, "\x10" + codes + std::string(1, '\0')) +
         segment(0xDA, std::string("\x03\x01\x00\x02\x00\x03\x00\x00", 8) +
                           std::string(1, frame == 0xC2 ? '\0' : '\x3F') + std::string(1, '\0')) +
         std::string(64, '\0');
}

// ---- LMDB ----

// A database of one record whose value lies on pages of its own and has so many bytes, as it says.
inline std::string LmdbOf(uint64_t value_bytes, uint64_t entries = 1) {
  constexpr size_t kPage = 4096;
  const uint64_t last = 3 + (value_bytes + 16) / kPage;
  const auto page = [&](uint64_t number, uint64_t flags, uint64_t lower, uint64_t upper) {
    return Little(number, 8) + Little(0, 2) + Little(flags, 2) + Little(lower, 2) + Little(upper, 2);
  };
  const auto meta = [&](uint64_t number) {
    std::string text =
        page(number, 8, 0, 0) + Little(0xBEEFC0DE, 4) + Little(1, 4) + Little(0, 8) + Little(1U << 30U, 8);
    text += Little(kPage, 4) + std::string(44, '\0');  // the free list's
    text += Little(0, 4) + Little(0, 2) + Little(1, 2) + Little(0, 8) + Little(1, 8) + Little(last - 2, 8) +
            Little(entries, 8) + Little(2, 8);
    text += Little(last, 8) + Little(1, 8);
    text.resize(kPage, '\0');
    return text;
  };
  const uint64_t node_at = kPage - 8 - 8 - 8;
  std::string leaf = page(2, 2, 18, node_at) + Little(node_at, 2);
  leaf.resize(node_at, '\0');
  leaf += Little(value_bytes & 0xFFFFU, 2) + Little(value_bytes >> 16U, 2) + Little(1, 2) + Little(8, 2) + "00000000" +
          Little(3, 8);
  return meta(0) + meta(1) + leaf + page(3, 4, 0, 0);
}

// ---- HDF5 ----

// Adds a dataset of chunks [1,chunk] float32, each of which is the same packed bytes.
inline void AddPackedRows(hid_t group, const std::string& name, hsize_t rows, hsize_t chunk,
                          const std::string& packed) {
  const std::array<hsize_t, 2> dims = {rows, chunk};
  const std::array<hsize_t, 2> chunks = {1, chunk};
  const hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(plist, 2, chunks.data());
  H5Pset_deflate(plist, 1);
  const hid_t space = H5Screate_simple(2, dims.data(), nullptr);
  const hid_t dataset = H5Dcreate2(group, name.c_str(), H5T_NATIVE_FLOAT, space, H5P_DEFAULT, plist, H5P_DEFAULT);
  for (hsize_t row = 0; row < rows && !packed.empty(); ++row) {
    const std::array<hsize_t, 2> at = {row, 0};
    H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, at.data(), packed.size(), packed.data());
  }
  H5Dclose(dataset);
  H5Sclose(space);
  H5Pclose(plist);
}

// A file of weights, data/l, which `fill` fills.
template <class Fill>
void PutHdf5(const fs::path& path, Fill fill) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t data = H5Gcreate2(file, "data", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t layer = H5Gcreate2(data, "l", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  fill(layer);
  H5Gclose(layer);
  H5Gclose(data);
  H5Fclose(file);
}

// ---- protobuf ----

inline std::string Varint(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7U) text += static_cast<char>(value | 0x80U);
  return text + static_cast<char>(value);
}
inline std::string Field(uint64_t number, const std::string& bytes) {
  return Varint(number << 3U | 2U) + Varint(bytes.size()) + bytes;
}

}  // namespace moka::hostile
