// The body of the kernel for 4-bit weights w (outputs, columns / 8), with a scale and a bias
// for each GROUP of columns. See few_rows.cuh.
//
// Four bits n become the 16-bit float 2^7 + n (bfloat16) or 2^10 + n (float16) when they are
// put into its mantissa. The power is taken back through the bias, times the sum of x over
// the group, which is the product with ones: scale (n x) + bias x, with no rounding of weights.
  constexpr bool HALF = cuda::std::is_same_v<T, __half>;
  constexpr unsigned int POWERS = HALF ? 0x64006400 : 0x43004300;
  constexpr unsigned int ONES = HALF ? 0x3c003c00 : 0x3f803f80;
  constexpr float POWER = HALF ? 1024.0f : 128.0f;
  constexpr int OUTPUTS = 16 * TILES;
  constexpr int WORDS = GROUP / 32;  // a lane's packed words of one output and group
  constexpr int GROUPS = STEP / GROUP;
  constexpr int LINE = STEP / 2 + 32;  // bytes of packed weights in shared memory, padded
  constexpr int XLINE = 2 * STEP + 16;
  constexpr int STAGE = OUTPUTS * (LINE + 4 * GROUPS) + XROWS * XLINE;
  const int columns = x_shape[x_ndim - 1], outputs = w_shape[0];
  int rows = 1;
  for (int axis = 0; axis < x_ndim - 1; ++axis) {
    rows *= x_shape[axis];
  }
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int slot = lane / 4, quarter = lane % 4;
  const int first = blockIdx.x * OUTPUTS;
  w += static_cast<long long>(first) * columns / 8;
  s += static_cast<long long>(first) * columns / GROUP;
  b += static_cast<long long>(first) * columns / GROUP;
  extern __shared__ __align__(16) unsigned char shared[];
  unsigned char* mine = shared + warp * STAGES * STAGE;

  auto fetch = [&](int start, int stage) {
    unsigned char* to = mine + stage * STAGE;
    constexpr int CHUNKS = STEP / 32;  // of 16 bytes
#pragma unroll
    for (int i = lane; i < OUTPUTS * CHUNKS; i += 32) {
      const int row = i / CHUNKS, chunk = i % CHUNKS;
      mlxlm::copy_ahead<16>(
          to + row * LINE + 16 * chunk, w + (row * columns + start) / 8 + 4 * chunk);
    }
    to += OUTPUTS * LINE;
    for (int row = lane; row < OUTPUTS; row += 32) {
      const int group = (row * columns + start) / GROUP;
      mlxlm::copy_ahead<2 * GROUPS>(to + 4 * GROUPS * row, s + group);
      mlxlm::copy_ahead<2 * GROUPS>(to + 4 * GROUPS * row + 2 * GROUPS, b + group);
    }
    to += OUTPUTS * 4 * GROUPS;
    for (int i = lane; i < min(rows, XROWS) * (STEP / 8); i += 32) {
      const int row = i / (STEP / 8), chunk = i % (STEP / 8);
      mlxlm::copy_ahead<16>(to + row * XLINE + 16 * chunk, x + row * columns + start + 8 * chunk);
    }
  };

  const int steps = columns / STEP;
#pragma unroll 1
  for (int stage = 0; stage < STAGES; ++stage) {
    if (warp + stage * WARPS < steps) {
      fetch((warp + stage * WARPS) * STEP, stage);
    }
    mlxlm::end_group();
  }
  float total[TILES][MT][4] = {};
  int stage = 0;
  for (int step = warp; step < steps; step += WARPS) {
    mlxlm::wait_groups<STAGES - 1>();
    __syncwarp();
    const unsigned char* weights = mine + stage * STAGE + slot * LINE + 4 * WORDS * quarter;
    const unsigned char* factors = mine + stage * STAGE + OUTPUTS * LINE + slot * 4 * GROUPS;
    const unsigned char* right =
        mine + stage * STAGE + OUTPUTS * (LINE + 4 * GROUPS) + 16 * WORDS * quarter;
#pragma unroll
    for (int group = 0; group < GROUPS; ++group) {
      mlxlm::Words<WORDS> packed[TILES][2];
#pragma unroll
      for (int half = 0; half < 2 * TILES; ++half) {
        packed[half / 2][half % 2] =
            mlxlm::load<WORDS>(weights + 8 * half * LINE + group * GROUP / 2);
      }
      float part[TILES][MT][4], sum[MT][4];
#pragma unroll
      for (int word = 0; word < WORDS; ++word) {
        // Columns in the order in which a word's bits pair up: (0, 4), (1, 5), (2, 6), (3, 7).
        unsigned int pair[MT][4];
#pragma unroll
        for (int m = 0; m < MT; ++m) {
          // Rows of x that there are not give sums that nothing reads.
          const int row = XROWS == 1 ? 0 : 8 * m + slot;
          const auto v = mlxlm::load<4>(right + row * XLINE + 2 * group * GROUP + 16 * word);
          pair[m][0] = __byte_perm(v.v[0], v.v[2], 0x5410);
          pair[m][1] = __byte_perm(v.v[0], v.v[2], 0x7632);
          pair[m][2] = __byte_perm(v.v[1], v.v[3], 0x5410);
          pair[m][3] = __byte_perm(v.v[1], v.v[3], 0x7632);
        }
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
#pragma unroll
          for (int tile = 0; tile <= TILES; ++tile) {
            unsigned int a[4] = {ONES, ONES, ONES, ONES};
            if (tile < TILES) {
              const unsigned int low = packed[tile % TILES][0].v[word] >> (4 * i);
              const unsigned int high = packed[tile % TILES][1].v[word] >> (4 * i);
              a[0] = (low & 0x000f000f) | POWERS;
              a[1] = (high & 0x000f000f) | POWERS;
              a[2] = ((low >> 4) & 0x000f000f) | POWERS;
              a[3] = ((high >> 4) & 0x000f000f) | POWERS;
            }
#pragma unroll
            for (int m = 0; m < MT; ++m) {
              float(&c)[4] = tile < TILES ? part[tile % TILES][m] : sum[m];
              if (word == 0 && i == 0) {
                mlxlm::mma<T, true>(c, a, pair[m][i], pair[m][i + 1]);
              } else {
                mlxlm::mma<T>(c, a, pair[m][i], pair[m][i + 1]);
              }
            }
          }
        }
      }
#pragma unroll
      for (int half = 0; half < 2 * TILES; ++half) {
        const T* pairs = reinterpret_cast<const T*>(factors + 8 * half * 4 * GROUPS) + group;
        const float scale = static_cast<float>(pairs[0]);
        const float shift = static_cast<float>(pairs[GROUPS]) - POWER * scale;
#pragma unroll
        for (int m = 0; m < MT; ++m) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float& value = total[half / 2][m][2 * (half % 2) + i];
            value = fmaf(shift, sum[m][i], value);
            value = fmaf(scale, part[half / 2][m][2 * (half % 2) + i], value);
          }
        }
      }
    }
    __syncwarp();
    const int next = step + STAGES * WARPS;
    if (next < steps) {
      fetch(next * STEP, stage);
    }
    mlxlm::end_group();
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }
  mlxlm::reduce_and_store<T, MT, TILES, WARPS>(total, shared, y, rows, outputs, first);
