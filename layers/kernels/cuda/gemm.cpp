// cuBLASLt is column-major, so a row-major y = a b is asked for as y^T = b^T a^T. Algorithms come from its heuristics,
// and the fastest of them by trial is kept by its problem's key.
#include "layers/kernels/cuda/gemm.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "core/choices.h"
#include "core/device/device.h"
#include "core/shared_library.h"
#include "core/text.h"
#include "layers/kernels/cuda/timing.h"
#include "layers/kernels/cuda/workspace.h"

namespace moka::cuda {
namespace {

// cuBLASLt's functions, loaded when first asked for.
struct Lt {
  decltype(&::cublasLtGetVersion) get_version;
  decltype(&::cublasLtCreate) create;
  decltype(&::cublasLtMatmul) matmul;
  decltype(&::cublasLtMatmulDescCreate) create_operation;
  decltype(&::cublasLtMatmulDescDestroy) destroy_operation;
  decltype(&::cublasLtMatmulDescSetAttribute) set_operation;
  decltype(&::cublasLtMatrixLayoutCreate) create_layout;
  decltype(&::cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&::cublasLtMatrixLayoutSetAttribute) set_layout;
  decltype(&::cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&::cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) find_algorithms;
  decltype(&::cublasLtMatmulAlgoCheck) check_algorithm;
  decltype(&::cublasLtGetStatusString) status_string;

  // Loaded by name at run time, so that one binary starts on machines without CUDA's libraries.
  static Lt Load() {
    const SharedLibrary file({"libcublasLt.so.13", "libcublasLt.so.12"}, "cuBLAS");
    Lt lt{};
    const auto load = [&]<class Function>(Function& function, const char* name) {
      function = file.Symbol<Function>(name);
    };
    load(lt.get_version, "cublasLtGetVersion");
    load(lt.create, "cublasLtCreate");
    load(lt.matmul, "cublasLtMatmul");
    load(lt.create_operation, "cublasLtMatmulDescCreate");
    load(lt.destroy_operation, "cublasLtMatmulDescDestroy");
    load(lt.set_operation, "cublasLtMatmulDescSetAttribute");
    load(lt.create_layout, "cublasLtMatrixLayoutCreate");
    load(lt.destroy_layout, "cublasLtMatrixLayoutDestroy");
    load(lt.set_layout, "cublasLtMatrixLayoutSetAttribute");
    load(lt.create_preference, "cublasLtMatmulPreferenceCreate");
    load(lt.destroy_preference, "cublasLtMatmulPreferenceDestroy");
    load(lt.set_preference, "cublasLtMatmulPreferenceSetAttribute");
    load(lt.find_algorithms, "cublasLtMatmulAlgoGetHeuristic");
    load(lt.check_algorithm, "cublasLtMatmulAlgoCheck");
    load(lt.status_string, "cublasLtGetStatusString");
    return lt;
  }
};

// Null where the library is not installed.
const Lt* LoadedLt() {
  static const std::optional<Lt> lt = []() -> std::optional<Lt> {
    try {
      return Lt::Load();
    } catch (const Error&) {
      return std::nullopt;
    }
  }();
  return lt ? &*lt : nullptr;
}

void Check(const Lt& lt, cublasStatus_t status, std::string_view call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ErrorKind::kUnavailable, {}, StrCat("cuBLASLt: ", call, " failed: ", lt.status_string(status)));
}

// One a GPU, for the life of the process.
cublasLtHandle_t HandleOf(const Lt& lt, const Device& device) {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;
  const std::scoped_lock lock(mutex);
  if (const auto it = handles.find(device.index); it != handles.end()) return it->second;
  if (const cudaError_t status = cudaSetDevice(device.index); status != cudaSuccess) {
    throw Error(ErrorKind::kUnavailable, {}, StrCat(NameOf(device), ": ", cudaGetErrorString(status)));
  }
  cublasLtHandle_t handle = nullptr;
  Check(lt, lt.create(&handle), "cublasLtCreate");
  handles.emplace(device.index, handle);
  return handle;
}

cudaDataType_t DataType(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return CUDA_R_64F;
    case DType::kFloat16: return CUDA_R_16F;
    case DType::kBFloat16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
  }
}

constexpr uint64_t kMostWorkspaceBytes = uint64_t{32} << 20U;

// An object of cuBLASLt's, destroyed by its function.
template <class T>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, cublasStatus_t (*)(T)>;

// An algorithm with what cuBLASLt says of it for a problem: its workspace.
using Algorithm = cublasLtMatmulHeuristicResult_t;

std::string KeyOf(const GemmProblem& p, const KernelQuery& query) {
  return StrCat(p.batch, " ", p.m, " ", p.n, " ", p.k, " ", p.transpose_a, p.transpose_b, p.has_bias, p.relu, " ",
                NameOf(p.inputs), " ", NameOf(p.output), " ", p.alignment_bytes, " ", query.deterministic,
                query.allows_tf32, " ", query.device.index);
}

// cuBLASLt's matrices have their columns one after another. A row-major y = a b is y^T = b^T a^T to it, and a row-major
// matrix is its own transpose: so b comes first, and what is to be transposed stays so.
class LtGemm final : public Gemm {
 public:
  LtGemm(const Lt& lt, const GemmProblem& p, const KernelQuery& query)
      : lt_(lt),
        handle_(HandleOf(lt, query.device)),
        p_(p),
        operation_(MakeOperation(query.allows_tf32)),
        b_(MakeLayout(p.inputs, p.transpose_b ? p.k : p.n, p.transpose_b ? p.n : p.k)),
        a_(MakeLayout(p.inputs, p.transpose_a ? p.m : p.k, p.transpose_a ? p.k : p.m)),
        y_(MakeLayout(p.output, p.n, p.m)) {
    FindAlgorithm(query);
  }

  // Whether there is an algorithm.
  bool ok() const { return algorithm_.has_value(); }
  int64_t scratch_bytes() const override { return WorkspaceRoom(static_cast<int64_t>(algorithm_->workspaceSize)); }
  std::string_view implementation() const override { return "cublasLt"; }

  void Run(Stream& stream, const void* a, const void* b, const void* bias, void* y, std::byte* scratch) override {
    Queue(stream, *algorithm_, {a, b, bias, y, WorkspaceIn(scratch)});
  }

 private:
  struct Places {
    const void* a;
    const void* b;
    const void* bias;
    void* y;
    std::byte* scratch;
  };

  // The scalars are of the scale type: doubles for float64, floats for everything else.
  void Queue(Stream& stream, const Algorithm& algorithm, const Places& at) {
    // The bias's address belongs to the operation and not to the call, so it is set before each.
    if (p_.has_bias) SetOperation(CUBLASLT_MATMUL_DESC_BIAS_POINTER, at.bias);
    const float one = 1;
    const float zero = 0;
    const double one_double = 1;
    const double zero_double = 0;
    const bool is_double = p_.output == DType::kFloat64;
    Check(lt_,
          lt_.matmul(handle_, operation_.get(), is_double ? static_cast<const void*>(&one_double) : &one, at.b,
                     b_.get(), at.a, a_.get(), is_double ? static_cast<const void*>(&zero_double) : &zero, at.y,
                     y_.get(), at.y, y_.get(), &algorithm.algo, at.scratch, algorithm.workspaceSize,
                     static_cast<cudaStream_t>(stream.native())),
          "cublasLtMatmul");
  }

  template <class T>
  void SetOperation(cublasLtMatmulDescAttributes_t name, const T& value) {
    Check(lt_, lt_.set_operation(operation_.get(), name, &value, sizeof(value)), "cublasLtMatmulDescSetAttribute");
  }

  // Half types are summed in float32. TF32 keeps 10 bits of each factor's mantissa and is used only where the user
  // allows it.
  Owned<cublasLtMatmulDesc_t> MakeOperation(bool allows_tf32) {
    cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
    if (p_.output == DType::kFloat64) compute = CUBLAS_COMPUTE_64F;
    if (p_.inputs == DType::kFloat32 && allows_tf32) compute = CUBLAS_COMPUTE_32F_FAST_TF32;
    cublasLtMatmulDesc_t made = nullptr;
    Check(lt_, lt_.create_operation(&made, compute, p_.output == DType::kFloat64 ? CUDA_R_64F : CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    Owned<cublasLtMatmulDesc_t> operation(made, lt_.destroy_operation);
    const auto set = [&]<class T>(cublasLtMatmulDescAttributes_t name, const T& value) {
      Check(lt_, lt_.set_operation(made, name, &value, sizeof(value)), "cublasLtMatmulDescSetAttribute");
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, p_.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p_.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    cublasLtEpilogue_t epilogue = p_.relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
    if (p_.has_bias) epilogue = p_.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    if (p_.has_bias) {
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, DataType(p_.output));
      // Algorithms are looked for before there is one, and an epilogue without a bias may have none.
      const void* const some_bias = reinterpret_cast<const void*>(uintptr_t{256});
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, some_bias);
    }
    return operation;
  }

  // Batches lie one behind the other, so one stride says where each begins.
  Owned<cublasLtMatrixLayout_t> MakeLayout(DType dtype, int64_t rows, int64_t columns) {
    cublasLtMatrixLayout_t made = nullptr;
    Check(lt_,
          lt_.create_layout(&made, DataType(dtype), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows),
          "cublasLtMatrixLayoutCreate");
    Owned<cublasLtMatrixLayout_t> layout(made, lt_.destroy_layout);
    if (p_.batch == 1) return layout;
    const auto batch = static_cast<int32_t>(p_.batch);
    const int64_t step = rows * columns;
    Check(lt_, lt_.set_layout(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)), "the batch's count");
    Check(lt_, lt_.set_layout(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof(step)),
          "the batch's step");
    return layout;
  }

  // Chosen once for each problem: a layer is asked about several times, and nets repeat their layers.
  void FindAlgorithm(const KernelQuery& query) {
    static std::mutex mutex;
    static std::map<std::string, std::optional<Algorithm>> chosen;
    const std::string key = KeyOf(p_, query);
    const std::scoped_lock lock(mutex);
    const auto it = chosen.find(key);
    algorithm_ = it != chosen.end() ? it->second : chosen.emplace(key, Choose(query, key)).first->second;
  }

  // The algorithm that an earlier search kept, cuBLASLt's first, or where algorithms may be timed the fastest of its
  // first few, which is kept for the next time.
  std::optional<Algorithm> Choose(const KernelQuery& query, const std::string& key) {
    constexpr int kTried = 8;
    if (!query.times_plans) {
      const std::vector<Algorithm> offers = Offers(query.deterministic, 1);
      return offers.empty() ? std::nullopt : std::optional(offers[0]);
    }
    const std::string name = ChoiceName("cublaslt", lt_.get_version(), query.device, key);
    if (std::optional<Algorithm> kept = Kept(name)) return kept;
    const std::vector<Algorithm> offers = Offers(query.deterministic, kTried);
    if (offers.empty()) return std::nullopt;
    try {
      const Algorithm& best = offers[Fastest(offers, query.device)];
      KeepChoice(name, {reinterpret_cast<const char*>(&best.algo), sizeof(best.algo)});
      return best;
    } catch (const Error&) {  // no room for the trial: the first runs without it
      return offers[0];
    }
  }

  // None if cuBLASLt does not take it for this problem. An algorithm's bytes hold for one version of the library.
  std::optional<Algorithm> Kept(const std::string& name) const {
    const std::optional<std::string> bytes = ReadChoice(name);
    Algorithm algorithm{};
    if (!bytes || bytes->size() != sizeof(algorithm.algo)) return std::nullopt;
    std::memcpy(&algorithm.algo, bytes->data(), sizeof(algorithm.algo));
    // The check also tells the workspace that the algorithm needs here.
    const cublasStatus_t status = lt_.check_algorithm(handle_, operation_.get(), b_.get(), a_.get(), y_.get(), y_.get(),
                                                      &algorithm.algo, &algorithm);
    if (status != CUBLAS_STATUS_SUCCESS || algorithm.workspaceSize > kMostWorkspaceBytes) return std::nullopt;
    return algorithm;
  }

  // A trial runs over memory of its own, as a kernel is made before the program has any.
  size_t Fastest(const std::vector<Algorithm>& offers, const Device& device) {
    enum Tensor : int64_t { kA, kB, kBias, kY };
    size_t scratch_bytes = 0;
    for (const Algorithm& offer : offers) scratch_bytes = std::max(scratch_bytes, offer.workspaceSize);
    const Trial trial({{kA, p_.batch * p_.m * p_.k * BytesOf(p_.inputs)},
                       {kB, p_.batch * p_.k * p_.n * BytesOf(p_.inputs)},
                       {kBias, p_.n * BytesOf(p_.output)},
                       {kY, p_.batch * p_.m * p_.n * BytesOf(p_.output)}},
                      static_cast<int64_t>(scratch_bytes), device);
    const Places places{trial.tensor(kA), trial.tensor(kB), trial.tensor(kBias), trial.tensor(kY), trial.scratch()};
    return FastestOf(trial.stream(), offers.size(), [&](size_t i) { Queue(trial.stream(), offers[i], places); });
  }

  // The best by cuBLASLt's heuristics first.
  std::vector<Algorithm> Offers(bool deterministic, int most) const {
    cublasLtMatmulPreference_t made = nullptr;
    Check(lt_, lt_.create_preference(&made), "cublasLtMatmulPreferenceCreate");
    const Owned<cublasLtMatmulPreference_t> preference(made, lt_.destroy_preference);
    const auto set = [&]<class T>(cublasLtMatmulPreferenceAttributes_t name, const T& value) {
      Check(lt_, lt_.set_preference(made, name, &value, sizeof(value)), "cublasLtMatmulPreferenceSetAttribute");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspaceBytes);
    for (const auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(name, static_cast<uint32_t>(p_.alignment_bytes));
    }
    // Parts of a sum that are added where they are come in any order.
    if (deterministic) {
      set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
          static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
    }
    std::vector<Algorithm> offers(static_cast<size_t>(most));
    int found = 0;
    const cublasStatus_t status = lt_.find_algorithms(handle_, operation_.get(), b_.get(), a_.get(), y_.get(), y_.get(),
                                                      made, most, offers.data(), &found);
    offers.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<size_t>(found) : 0);
    std::erase_if(offers, [](const Algorithm& offer) { return offer.state != CUBLAS_STATUS_SUCCESS; });
    return offers;
  }

  const Lt& lt_;
  cublasLtHandle_t handle_;
  GemmProblem p_;
  Owned<cublasLtMatmulDesc_t> operation_;
  Owned<cublasLtMatrixLayout_t> b_;
  Owned<cublasLtMatrixLayout_t> a_;
  Owned<cublasLtMatrixLayout_t> y_;
  std::optional<Algorithm> algorithm_;
};

}  // namespace

// A rehearsed GPU, a machine without the library and a problem that it refuses go to the plain loop.
std::unique_ptr<Gemm> MakeGemm(const GemmProblem& problem, const KernelQuery& query) {
  const bool is_empty = problem.batch * problem.m * problem.n * problem.k == 0;
  if (!is_empty && !query.device.is_rehearsed()) {
    if (const Lt* lt = LoadedLt(); lt != nullptr) {
      auto gemm = std::make_unique<LtGemm>(*lt, problem, query);
      if (gemm->ok()) return gemm;
    }
  }
  return MakeLoopGemm(problem);
}

}  // namespace moka::cuda
