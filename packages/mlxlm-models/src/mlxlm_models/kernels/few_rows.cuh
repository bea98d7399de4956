// Shared by the kernels for few rows: y (rows, outputs) = x (rows, columns) w^T.
//
// A thread block makes 16 TILES outputs. Its warps share the columns out among them, STEP at
// a time, and add up their sums at the end. Each warp copies what it needs ahead of use into
// its own STAGES buffers in shared memory. Products are on tensor cores with float32 sums: w
// is the left operand, 16 outputs, x the right one, 8 rows; MT of those cover the rows.
//
// In the fragments of PTX's mma.m16n8k16 the order of the columns is free as long as both
// operands agree on it, so each lane takes columns that lie next to each other.

namespace mlxlm {

template <int N>
struct alignas(4 * N) Words {
  unsigned int v[N];
};

template <int N>
__device__ __forceinline__ Words<N> load(const void* from) {
  return *reinterpret_cast<const Words<N>*>(from);
}

// Copies BYTES (4, 8 or 16) from global to shared memory in the background.
template <int BYTES>
__device__ __forceinline__ void copy_ahead(void* to, const void* from) {
  const unsigned int address = static_cast<unsigned int>(__cvta_generic_to_shared(to));
  if constexpr (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from));
  } else {
    asm volatile(
        "cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(BYTES));
  }
}

__device__ __forceinline__ void end_group() {
  asm volatile("cp.async.commit_group;");
}

// Waits until at most LEFT groups of copies are under way.
template <int LEFT>
__device__ __forceinline__ void wait_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// c (16, 8) = a (16, 16) b (16, 8), plus c unless FIRST.
template <typename T, bool FIRST = false>
__device__ __forceinline__ void mma(
    float (&c)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
  const float c0 = FIRST ? 0.0f : c[0], c1 = FIRST ? 0.0f : c[1];
  const float c2 = FIRST ? 0.0f : c[2], c3 = FIRST ? 0.0f : c[3];
  if constexpr (cuda::std::is_same_v<T, __half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1),
          "f"(c0), "f"(c1), "f"(c2), "f"(c3));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1),
          "f"(c0), "f"(c1), "f"(c2), "f"(c3));
  }
}

// Adds up the warps' sums and writes the block's outputs. `shared` may still be in use.
template <typename T, int MT, int TILES, int WARPS>
__device__ __forceinline__ void reduce_and_store(
    const float (&total)[TILES][MT][4], void* shared, T* y, int rows, int outputs, int first) {
  constexpr int OUTPUTS = 16 * TILES;
  constexpr int STRIDE = OUTPUTS + 4;  // keeps a warp's stores in different banks
  float* partial = static_cast<float*>(shared);  // (WARPS, 8 MT, STRIDE)
  const int warp = threadIdx.x / 32, slot = threadIdx.x % 32 / 4, quarter = threadIdx.x % 4;
  __syncthreads();
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) {
#pragma unroll
    for (int m = 0; m < MT; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 8 * m + 2 * quarter + i % 2;
        const int output = 16 * tile + 8 * (i / 2) + slot;
        partial[(warp * 8 * MT + row) * STRIDE + output] = total[tile][m][i];
      }
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.x; i < OUTPUTS * rows; i += 32 * WARPS) {
    const int row = i / OUTPUTS, output = i % OUTPUTS;
    float value = 0;
#pragma unroll
    for (int k = 0; k < WARPS; ++k) {
      value += partial[(k * 8 * MT + row) * STRIDE + output];
    }
    y[static_cast<long long>(row) * outputs + first + output] = static_cast<T>(value);
  }
}

}  // namespace mlxlm
