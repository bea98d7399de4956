"""A CUDA kernel for few rows times 4-bit weights.

Each packed weight is read once, whatever the number of rows, and multiplied on the tensor
cores with float32 sums. A number n of 4 bits becomes the 16-bit float 2^7 + n (bfloat16)
or 2^10 + n (float16) by putting its bits into the mantissa; the power is taken back
through the group's bias, so what is computed is scale * (n x) + bias * x, unrounded.
"""

from functools import cache
from typing import Any

import mlx.core as mx
import mlx.nn as nn

MAX_ROWS = 32
"""Of x. Above it, x is re-read too often."""

STEP = 256
"""Columns that a warp takes at a time; the number of columns must be a multiple of it."""

TILE = 32
"""Outputs of one thread block, whose warps share the columns out among them."""

WARPS = 8

_HEADER = """
namespace mlxlm {

template <int N>
struct alignas(4 * N) Words {
  unsigned int v[N];
};

template <int N>
__device__ __forceinline__ Words<N> load(const void* p) {
  return *reinterpret_cast<const Words<N>*>(p);
}

template <typename T>
struct Float16;

template <>
struct Float16<__nv_bfloat16> {
  static constexpr unsigned int power = 0x43004300;  // a pair of 128
  static constexpr float offset = 128.0f;
  static constexpr unsigned int one = 0x3f803f80;
};

template <>
struct Float16<__half> {
  static constexpr unsigned int power = 0x64006400;  // a pair of 1024
  static constexpr float offset = 1024.0f;
  static constexpr unsigned int one = 0x3c003c00;
};

// c (16, 8) += a (16, 16) b (16, 8), spread over the warp as PTX's mma.m16n8k16 says.
template <typename T>
__device__ __forceinline__ void mma(
    float (&c)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
  if constexpr (cuda::std::is_same_v<T, __half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

}  // namespace mlxlm
"""

_SOURCE = """
  using F = mlxlm::Float16<T>;
  constexpr int WORDS = GROUP / 32;    // a thread's packed words of one row and group
  constexpr int GROUPS = STEP / GROUP;
  constexpr int OUTPUTS = 16 * TILES;
  constexpr int STRIDE = OUTPUTS + 4;  // keeps the warp's shared stores in distinct banks
  const int rows = x_shape[0], columns = x_shape[1], outputs = w_shape[0];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int slot = lane / 4, quarter = lane % 4;  // place in the mma's fragments
  const int first = blockIdx.x * OUTPUTS;
  const unsigned int ones[4] = {F::one, F::one, F::one, F::one};

  float total[TILES][MT][4] = {};
  for (int start = warp * STEP; start < columns; start += WARPS * STEP) {
    mlxlm::Words<WORDS> packed[TILES][2][GROUPS];
    mlxlm::Words<GROUPS / 2> scale[TILES][2], bias[TILES][2];
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const long long row = first + 16 * tile + 8 * half + slot;
        const unsigned int* from = w + (row * columns + start) / 8 + quarter * WORDS;
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
          packed[tile][half][group] = mlxlm::load<WORDS>(from + group * GROUP / 8);
        }
        scale[tile][half] = mlxlm::load<GROUPS / 2>(s + (row * columns + start) / GROUP);
        bias[tile][half] = mlxlm::load<GROUPS / 2>(b + (row * columns + start) / GROUP);
      }
    }
#pragma unroll
    for (int group = 0; group < GROUPS; ++group) {
      float part[TILES][MT][4] = {};
      float sum[MT][4] = {};  // of x over the group: the product with ones
#pragma unroll
      for (int word = 0; word < WORDS; ++word) {
        // Columns in the order of the packed pairs: (0, 4), (1, 5), (2, 6), (3, 7).
        unsigned int pair[MT][4];
#pragma unroll
        for (int m = 0; m < MT; ++m) {
          const int row = 8 * m + slot;
          mlxlm::Words<4> v = {};
          if (row < rows) {
            v = mlxlm::load<4>(
                x + row * columns + start + group * GROUP + 8 * (quarter * WORDS + word));
          }
          pair[m][0] = __byte_perm(v.v[0], v.v[2], 0x5410);
          pair[m][1] = __byte_perm(v.v[0], v.v[2], 0x7632);
          pair[m][2] = __byte_perm(v.v[1], v.v[3], 0x5410);
          pair[m][3] = __byte_perm(v.v[1], v.v[3], 0x7632);
        }
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
#pragma unroll
          for (int tile = 0; tile < TILES; ++tile) {
            const unsigned int low = packed[tile][0][group].v[word] >> (4 * i);
            const unsigned int high = packed[tile][1][group].v[word] >> (4 * i);
            const unsigned int a[4] = {
                (low & 0x000f000f) | F::power,
                (high & 0x000f000f) | F::power,
                ((low >> 4) & 0x000f000f) | F::power,
                ((high >> 4) & 0x000f000f) | F::power};
#pragma unroll
            for (int m = 0; m < MT; ++m) {
              mlxlm::mma<T>(part[tile][m], a, pair[m][i], pair[m][i + 1]);
            }
          }
#pragma unroll
          for (int m = 0; m < MT; ++m) {
            mlxlm::mma<T>(sum[m], ones, pair[m][i], pair[m][i + 1]);
          }
        }
      }
#pragma unroll
      for (int tile = 0; tile < TILES; ++tile) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float factor =
              static_cast<float>(reinterpret_cast<const T*>(scale[tile][half].v)[group]);
          const float shift =
              static_cast<float>(reinterpret_cast<const T*>(bias[tile][half].v)[group]) -
              F::offset * factor;
#pragma unroll
          for (int m = 0; m < MT; ++m) {
#pragma unroll
            for (int c = 0; c < 2; ++c) {
              total[tile][m][2 * half + c] +=
                  factor * part[tile][m][2 * half + c] + shift * sum[m][c];
            }
          }
        }
      }
    }
  }

  __shared__ float partial[WARPS][8 * MT][STRIDE];
#pragma unroll
  for (int tile = 0; tile < TILES; ++tile) {
#pragma unroll
    for (int m = 0; m < MT; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        partial[warp][8 * m + 2 * quarter + i % 2][16 * tile + 8 * (i / 2) + slot] =
            total[tile][m][i];
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < OUTPUTS * min(rows, 8 * MT); i += 32 * WARPS) {
    const int row = i / OUTPUTS, output = i % OUTPUTS;
    float value = 0;
#pragma unroll
    for (int k = 0; k < WARPS; ++k) {
      value += partial[k][row][output];
    }
    y[static_cast<long long>(row) * outputs + first + output] = static_cast<T>(value);
  }
"""


def fits(x: mx.array, layer: nn.Module) -> bool:
    """Tell whether the kernel computes x (rows, columns) times the layer's packed weights."""
    rows, columns = x.shape
    dtype = x.dtype
    return (
        rows <= MAX_ROWS
        and layer.bits == 4
        and layer.mode == "affine"
        and columns % STEP == 0
        and layer["weight"].shape[0] % TILE == 0
        and dtype in (mx.bfloat16, mx.float16)
        and layer["scales"].dtype == dtype
    )


def multiply(x: mx.array, layer: nn.Module) -> mx.array:
    """Return x (rows, columns) times the layer's weights (outputs, columns), transposed.

    Only where it `fits`, on CUDA. The layer's bias is not added.
    """
    weight: mx.array = layer["weight"]
    rows, outputs = x.shape[0], weight.shape[0]
    product: Any = _kernel()(
        inputs=[x, weight, layer["scales"], layer["biases"]],
        template=[
            ("T", x.dtype),
            ("GROUP", layer.group_size),
            ("MT", -(-rows // 8)),
            ("TILES", TILE // 16),
            ("WARPS", WARPS),
            ("STEP", STEP),
        ],
        grid=(outputs // TILE * 32 * WARPS, 1, 1),
        threadgroup=(32 * WARPS, 1, 1),
        output_shapes=[(rows, outputs)],
        output_dtypes=[x.dtype],
    )
    return product[0]  # type: ignore[no-any-return]


@cache
def _kernel() -> Any:
    return mx.fast.cuda_kernel(
        name="packed_rows",
        input_names=["x", "w", "s", "b"],
        output_names=["y"],
        source=_SOURCE,
        header=_HEADER,
    )
