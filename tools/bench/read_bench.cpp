// GB/s of taking raw Datums out of an LMDB (finding the record, parsing its wire bytes, copying its pixels) beside a
// plain copy of as many bytes in pieces of the same size, from memory of the same extent to the same place. One thread;
// in the database's order and shuffled, in turns; each pixel read is checked by sum. Prints JSON.
// Usage: read_bench [ROUNDS [MEGABYTES [SIDE]]]: the database of so many MB of 3 x SIDE x SIDE records is made in the
// system's folder for temporary files and removed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "core/device/tensor.h"
#include "core/error.h"
#include "core/rng.h"
#include "core/text.h"
#include "data/records/datum_view.h"
#include "data/records/lmdb_file.h"
#include "data/records/lmdb_writer.h"
#include "proto/moka.pb.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

int64_t MakeDatabase(const fs::path& path, int64_t records, int64_t side) {
  LmdbWriter writer(path);
  Datum datum;
  datum.set_channels(3);
  datum.set_height(static_cast<int32_t>(side));
  datum.set_width(static_cast<int32_t>(side));
  std::string& pixels = *datum.mutable_data();
  pixels.resize(static_cast<size_t>(3 * side * side));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<char>(i * 31 % 251);
  int64_t sum = 0;
  for (int64_t i = 0; i < records; ++i) {
    pixels[0] = static_cast<char>(i % 127);
    sum += pixels[0];
    datum.set_label(static_cast<int32_t>(i % 1000));
    writer.Put(LmdbKey(i, "r"), datum.SerializeAsString());
  }
  writer.Finish();
  return sum;
}

template <class Body>
double Seconds(const Body& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// GB/s of each way, one number a round.
struct Rates {
  std::vector<double> read;
  std::vector<double> shuffled;
  std::vector<double> copy;
  std::vector<double> copy_shuffled;
};

Rates Measure(const LmdbReader& reader, int64_t record_bytes, int64_t expected_sum, int rounds) {
  const int64_t records = reader.size();
  std::vector<int64_t> in_order(static_cast<size_t>(records));
  std::iota(in_order.begin(), in_order.end(), int64_t{0});
  std::vector<int64_t> drawn = in_order;
  const Permutation permutation(static_cast<uint64_t>(records), 1, 1);
  for (int64_t& i : drawn) i = static_cast<int64_t>(permutation(static_cast<uint64_t>(i)));
  const Buffer memory = Buffer::Allocate(records * record_bytes);
  std::memset(memory.data(), 1, static_cast<size_t>(memory.bytes()));
  std::vector<char> to(static_cast<size_t>(record_bytes));
  const double gigabytes = static_cast<double>(records * record_bytes) * 1e-9;
  const auto read = [&](const std::vector<int64_t>& order) {
    int64_t sum = 0;
    const double seconds = Seconds([&] {
      for (const int64_t i : order) {
        const DatumView datum = ParseDatum(reader.value(i));
        Require(datum.Count() == record_bytes, "a record has its size");
        std::memcpy(to.data(), datum.data.data(), datum.data.size());
        sum += to[0];
      }
    });
    Require(sum == expected_sum, "each record is read once");
    return gigabytes / seconds;
  };
  const auto copy = [&](const std::vector<int64_t>& order) {
    int64_t sum = 0;
    const double seconds = Seconds([&] {
      for (const int64_t i : order) {
        std::memcpy(to.data(), static_cast<const char*>(static_cast<const void*>(memory.data())) + i * record_bytes,
                    to.size());
        sum += to[0];
      }
    });
    Require(sum == records, "each piece is copied once");
    return gigabytes / seconds;
  };
  read(in_order);  // maps the pages
  Rates rates;
  for (int i = 0; i < rounds; ++i) {
    rates.read.push_back(read(in_order));
    rates.copy.push_back(copy(in_order));
    rates.shuffled.push_back(read(drawn));
    rates.copy_shuffled.push_back(copy(drawn));
  }
  return rates;
}

nlohmann::json Spread(std::vector<double> values) {
  std::ranges::sort(values);
  return {{"median", values[values.size() / 2]}, {"least", values.front()}, {"most", values.back()}};
}

std::vector<double> Ratios(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return ratios;
}

int Main(int rounds, int64_t megabytes, int64_t side) {
  const int64_t record_bytes = 3 * side * side;
  const int64_t records = std::max<int64_t>(2, megabytes * 1'000'000 / record_bytes);
  std::string folder = (fs::temp_directory_path() / "moka_read_bench_XXXXXX").string();
  Require(mkdtemp(folder.data()) != nullptr, "a temporary folder can be made");
  const auto remove = [&] {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  };
  try {
    const int64_t sum = MakeDatabase(fs::path(folder) / "db", records, side);
    const LmdbReader reader(fs::path(folder) / "db", LmdbReader::Access::kShuffled);
    const Rates rates = Measure(reader, record_bytes, sum, rounds);
    const nlohmann::json result = {{"records", records},
                                   {"record_bytes", record_bytes},
                                   {"rounds", rounds},
                                   {"read_gb_per_s", Spread(rates.read)},
                                   {"copy_gb_per_s", Spread(rates.copy)},
                                   {"ratio", Spread(Ratios(rates.read, rates.copy))},
                                   {"shuffled_read_gb_per_s", Spread(rates.shuffled)},
                                   {"shuffled_copy_gb_per_s", Spread(rates.copy_shuffled)},
                                   {"shuffled_ratio", Spread(Ratios(rates.shuffled, rates.copy_shuffled))}};
    std::printf("%s\n", result.dump(1).c_str());
  } catch (...) {
    remove();
    throw;
  }
  remove();
  return 0;
}

}  // namespace
}  // namespace moka

int main(int count, char** arguments) {
  try {
    const auto number = [&](int i, int otherwise) {
      return count > i ? std::max(1, std::atoi(arguments[i])) : otherwise;
    };
    return moka::Main(number(1, 7), number(2, 1000), number(3, 224));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
