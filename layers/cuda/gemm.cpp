#include "layers/cuda/gemm.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <map>
#include <mutex>
#include <optional>

#include "core/device.h"
#include "core/text.h"
#include "layers/cuda/shared_library.h"

namespace moka::cuda {
namespace {

// cuBLASLt's functions, loaded when first asked for.
struct Lt {
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
  decltype(&::cublasLtGetStatusString) status_string;

  static Lt Load() {
    const SharedLibrary file({"libcublasLt.so.13", "libcublasLt.so.12"}, "cuBLAS");
    Lt lt{};
    const auto load = [&]<class Function>(Function& function, const char* name) {
      function = file.Symbol<Function>(name);
    };
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

// An object of cuBLASLt's, destroyed by its function.
template <class T>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, cublasStatus_t (*)(T)>;

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
    FindAlgorithm(query.deterministic);
  }

  // Whether there is an algorithm.
  bool ok() const { return found_ > 0; }
  int64_t scratch_bytes() const override { return static_cast<int64_t>(result_.workspaceSize); }
  std::string_view implementation() const override { return "cublasLt"; }

  void Run(Stream& stream, const void* a, const void* b, const void* bias, void* y, std::byte* scratch) override {
    if (p_.has_bias) SetOperation(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    const float one = 1;
    const float zero = 0;
    const double one_double = 1;
    const double zero_double = 0;
    const bool is_double = p_.output == DType::kFloat64;
    Check(lt_,
          lt_.matmul(handle_, operation_.get(), is_double ? static_cast<const void*>(&one_double) : &one, b, b_.get(),
                     a, a_.get(), is_double ? static_cast<const void*>(&zero_double) : &zero, y, y_.get(), y, y_.get(),
                     &result_.algo, scratch, result_.workspaceSize, static_cast<cudaStream_t>(stream.native())),
          "cublasLtMatmul");
  }

 private:
  template <class T>
  void SetOperation(cublasLtMatmulDescAttributes_t name, const T& value) {
    Check(lt_, lt_.set_operation(operation_.get(), name, &value, sizeof(value)), "cublasLtMatmulDescSetAttribute");
  }

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
    if (p_.has_bias) set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, DataType(p_.output));
    return operation;
  }

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

  void FindAlgorithm(bool deterministic) {
    cublasLtMatmulPreference_t made = nullptr;
    Check(lt_, lt_.create_preference(&made), "cublasLtMatmulPreferenceCreate");
    const Owned<cublasLtMatmulPreference_t> preference(made, lt_.destroy_preference);
    const auto set = [&]<class T>(cublasLtMatmulPreferenceAttributes_t name, const T& value) {
      Check(lt_, lt_.set_preference(made, name, &value, sizeof(value)), "cublasLtMatmulPreferenceSetAttribute");
    };
    constexpr uint64_t kMostWorkspaceBytes = uint64_t{32} << 20U;
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
    const cublasStatus_t status = lt_.find_algorithms(handle_, operation_.get(), b_.get(), a_.get(), y_.get(), y_.get(),
                                                      made, 1, &result_, &found_);
    if (status != CUBLAS_STATUS_SUCCESS || result_.state != CUBLAS_STATUS_SUCCESS) found_ = 0;
  }

  const Lt& lt_;
  cublasLtHandle_t handle_;
  GemmProblem p_;
  Owned<cublasLtMatmulDesc_t> operation_;
  Owned<cublasLtMatrixLayout_t> b_;
  Owned<cublasLtMatrixLayout_t> a_;
  Owned<cublasLtMatrixLayout_t> y_;
  cublasLtMatmulHeuristicResult_t result_{};
  int found_ = 0;
};

}  // namespace

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
