// Each is known by a name, which a fault is reported with.
#include "tools/bench/serve/hostile_requests.h"

#include <random>

#include "core/text.h"

namespace moka {
namespace {

struct Collected {
  std::string path;
  std::vector<HostileRequest> all = {};

  void Add(const std::string& name, std::string bytes, bool may_be_right = false) {
    all.push_back({name, std::move(bytes), may_be_right});
  }
  // A body to infer, with its length.
  void Body(const std::string& name, const std::string& body, const std::string& headers = {}) {
    Add(name, StrCat("POST ", path, " HTTP/1.1\r\nHost: here\r\n", headers, "Content-Length: ", body.size(), "\r\n\r\n",
                     body));
  }
  // A head to infer and what follows it.
  void Head(const std::string& name, const std::string& headers, const std::string& rest = {}) {
    Add(name, StrCat("POST ", path, " HTTP/1.1\r\nHost: here\r\n", headers, "\r\n", rest));
  }
};

constexpr const char* kChunked = "Transfer-Encoding: chunked\r\n";
// A request that is to be answered only if the one before it was cut at the wrong place.
constexpr const char* kHidden = "GET /v2/health/live HTTP/1.1\r\nHost: here\r\nX-Request-Id: hidden\r\n\r\n";

void AddHeads(Collected& to) {
  to.Add("no request", "nonsense\r\n\r\n");
  to.Add("zeros", std::string(100, '\0'));
  to.Add("TLS", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(200, 'a'));
  to.Add("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  to.Add("a version that is not", "GET /v2 HTTP/9.9\r\n\r\n");
  to.Add("no version", "GET /v2\r\n\r\n");
  to.Add("a space before the colon", "GET /v2 HTTP/1.1\r\nHost : here\r\n\r\n");
  to.Add("a folded header", "GET /v2 HTTP/1.1\r\nHost: here\r\nA: b\r\n c\r\n\r\n", true);
  to.Add("a header without a name", "GET /v2 HTTP/1.1\r\n: b\r\n\r\n");
  to.Add("a zero in a header", std::string("GET /v2 HTTP/1.1\r\nHost: here\r\nA: b\0c\r\n\r\n", 40));
  to.Add("line feeds alone", "GET /v2 HTTP/1.1\nHost: here\n\n");
  to.Add("a long path", StrCat("GET /", std::string(12000, 'a'), " HTTP/1.1\r\nHost: here\r\n\r\n"));
  to.Add("a long header", StrCat("GET /v2 HTTP/1.1\r\nHost: here\r\nA: ", std::string(40000, 'a'), "\r\n\r\n"));
  std::string many = "GET /v2 HTTP/1.1\r\nHost: here\r\n";
  for (int i = 0; i < 300; ++i) many += StrCat("A", i, ": b\r\n");
  to.Add("many headers", many + "\r\n");
  to.Add("a path that is no UTF-8", "GET /v2/models/%ff%fe/ready HTTP/1.1\r\nHost: here\r\n\r\n");
  to.Add("a path out of the folder", "GET /v2/models/../../etc/passwd HTTP/1.1\r\nHost: here\r\n\r\n");
  to.Add("a path out of the folder, escaped", "GET /v2/models/%2e%2e%2fetc%2fpasswd HTTP/1.1\r\nHost: here\r\n\r\n");
  to.Add("a zero in a path", "GET /v2/models/a%00b HTTP/1.1\r\nHost: here\r\n\r\n");
  to.Add("half an escape", "GET /v2/models/%2 HTTP/1.1\r\nHost: here\r\n\r\n");
  to.Add("a proxy's call", "CONNECT here:443 HTTP/1.1\r\nHost: here\r\n\r\n");
  to.Add("a method that is not", "BREW /v2 HTTP/1.1\r\nHost: here\r\n\r\n");
  to.Add("half a head", "POST /v2/models/lenet/infer HTTP/1.1\r\nHos");
}

void AddLengths(Collected& to) {
  const std::string hidden = kHidden;
  to.Head("two lengths", "Content-Length: 0\r\nContent-Length: 5\r\n", "hello" + hidden);
  to.Head("a list of lengths", "Content-Length: 5, 6\r\n", "hello" + hidden);
  to.Head("a length below zero", "Content-Length: -1\r\n", hidden);
  to.Head("a length with a plus", "Content-Length: +5\r\n", "hello" + hidden);
  to.Head("a length in hexadecimal", "Content-Length: 0x5\r\n", "hello" + hidden);
  to.Head("a length beyond numbers", "Content-Length: 99999999999999999999999\r\n", hidden);
  to.Head("a length of 2^64", "Content-Length: 18446744073709551616\r\n", hidden);
  to.Head("a large length", "Content-Length: 99999999999\r\n", hidden);
  to.Head("a length and chunks", StrCat("Content-Length: 4\r\n", kChunked), "0\r\n\r\n" + hidden);
  to.Head("chunks and a length", StrCat(kChunked, "Content-Length: 4\r\n"), "0\r\n\r\n" + hidden);
  to.Head("chunks that are not last", "Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n" + hidden);
  to.Head("an encoding that is not", "Transfer-Encoding: xchunked\r\n", "0\r\n\r\n" + hidden);
  to.Head("chunks twice", StrCat(kChunked, kChunked), "0\r\n\r\n" + hidden);
  to.Head("a tab before chunked", "Transfer-Encoding:\tchunked\r\nContent-Length: 3\r\n", "0\r\n\r\n" + hidden);
  to.Head("no length", "");
  to.Head("an end before the body's", "Content-Length: 1000\r\n", "short");
}

void AddChunks(Collected& to) {
  const std::string hidden = kHidden;
  to.Head("a chunk's length that is none", kChunked, "zz\r\nhello\r\n0\r\n\r\n" + hidden);
  to.Head("a chunk below zero", kChunked, "-1\r\nhello\r\n0\r\n\r\n" + hidden);
  to.Head("a chunk beyond numbers", kChunked, "fffffffffffffffff\r\nhello" + hidden);
  to.Head("a chunk of all memory", kChunked, "ffffffffffffffff\r\nhello" + hidden);
  to.Head("a chunk that is longer than it says", kChunked, "3\r\nhello\r\n0\r\n\r\n" + hidden);
  to.Head("a chunk without an end", kChunked, "5\r\nhello0\r\n\r\n" + hidden);
  to.Head("a header behind chunks", kChunked, "2\r\n{}\r\n0\r\nHost: there\r\n\r\n");
  to.Head("a long word beside a chunk", kChunked, StrCat("2;a=", std::string(30000, 'b'), "\r\n{}\r\n0\r\n\r\n"));
  std::string small;
  for (int i = 0; i < 70000; ++i) small += "1\r\n \r\n";
  to.Head("many small chunks", kChunked, small + "0\r\n\r\n");
  to.Head("half a chunk", kChunked, "10\r\nhel");
}

void AddTensors(Collected& to) {
  const auto input = [](const std::string& shape, const std::string& rest) {
    return StrCat(R"({"inputs":[{"name":"data","datatype":"FP32","shape":)", shape, ",", rest, "}]}");
  };
  const std::string data = R"("data":[1])";
  const auto bytes_of = [](const std::string& size) {
    return StrCat(R"("parameters":{"binary_data_size":)", size, "}");
  };
  const auto binary = [&](const std::string& name, const std::string& json, const std::string& rest,
                          const std::string& length) {
    to.Body(name, json + rest, StrCat("Inference-Header-Content-Length: ", length, "\r\n"));
  };
  to.Body("no JSON", "{");
  to.Body("an empty body", "");
  to.Body("a list", "[]");
  to.Body("deep lists", std::string(100000, '['));
  to.Body("deep objects", [] {
    std::string deep;
    for (int i = 0; i < 20000; ++i) deep += R"({"a":)";
    return deep;
  }());
  to.Body("no inputs", R"({"inputs":[]})");
  to.Body("an input twice", R"({"inputs":[{"name":"data","shape":[1],"datatype":"FP32","data":[1]},
                             {"name":"data","shape":[1],"datatype":"FP32","data":[1]}]})");
  to.Body("a shape below zero", input("[-1,1,28,28]", data));
  to.Body("a shape beyond numbers", input("[99999999999999999999,1]", data));
  to.Body("a shape whose product overflows", input("[4294967296,4294967296,4294967296]", data));
  to.Body("many rows of nothing", input("[1000000000,0]", R"("data":[])"));
  to.Body("a shape of halves", input("[1.5,1,28,28]", data));
  to.Body("few numbers", input("[1,1,28,28]", data));
  to.Body("a number that is none", input("[1,1,28,28]", R"("data":[NaN])"));
  to.Body("a number beyond floats", input("[1,1,28,28]", R"("data":[1e999])"));
  to.Body("a text for numbers", input("[1,1,28,28]", R"("data":"many")"));
  to.Body("no UTF-8", input("[1,1,28,28]", "\"data\":[\"\xff\xfe\"]"));
  to.Body("an unknown field", R"({"inputs":[],"eval":"1"})");
  to.Body("a priority that is not", R"({"inputs":[{"name":"data","shape":[1],"datatype":"FP32","data":[1]}],)"
                                    R"("parameters":{"priority":99999}})");
  binary("bytes below zero", input("[1,1,28,28]", bytes_of("-4")), "aaaa", "90");
  binary("bytes beyond numbers", input("[1,1,28,28]", bytes_of("9223372036854775807")), "aaaa", "90");
  binary("a JSON longer than the body", "{}", "", "99999");
  binary("a JSON of less than nothing", "{}", "", "-1");
  binary("a length of JSON that is no number", "{}", "", "two");
  binary("bytes of no input", R"({"inputs":[]})", "aaaa", "13");
  binary("raw bytes, too few", "", "aaa", "0");
  to.Add("an unknown model", "POST /v2/models/nothing/infer HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\n{}");
  to.Add("an unknown version", StrCat("POST ", "/v2/models/lenet/versions/99999999999999999999/infer",
                                      " HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\n{}"));
  to.Body("packed", "\x1f\x8b\x08", "Content-Encoding: gzip\r\n");
  to.Body("an expectation that is none", "{}", "Expect: miracles\r\n");
}

// A right request with some bytes changed, taken out or doubled.
std::string Changed(std::string bytes, std::mt19937_64& random) {
  const auto times = 1 + random() % 4;
  for (uint64_t i = 0; i < times; ++i) {
    const size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0: bytes[at] = static_cast<char>(random() % 256); break;
      case 1: bytes.erase(at, 1 + random() % 20); break;
      case 2: bytes.insert(at, bytes.substr(at, random() % 20)); break;
      default: bytes.resize(at + 1); break;
    }
  }
  return bytes;
}

}  // namespace

std::vector<HostileRequest> HostileRequests(const std::string& model, const std::string& right, uint64_t seed) {
  Collected collected{StrCat("/v2/models/", model, "/infer")};
  AddHeads(collected);
  AddLengths(collected);
  AddChunks(collected);
  AddTensors(collected);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200; ++i) collected.Add(StrCat("changed ", i), Changed(right, random), true);
  return std::move(collected.all);
}

}  // namespace moka
