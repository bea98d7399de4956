// The body of the kernel for 16-bit weights w (outputs, columns). See few_rows.cuh.
  constexpr int OUTPUTS = 16 * TILES;
  constexpr int LINE = 2 * STEP + 64;  // bytes of a row in shared memory: 64 against conflicts
  constexpr int STAGE = (OUTPUTS + XROWS) * LINE;
  const int columns = x_shape[x_ndim - 1], outputs = w_shape[0];
  int rows = 1;
  for (int axis = 0; axis < x_ndim - 1; ++axis) {
    rows *= x_shape[axis];
  }
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int slot = lane / 4, quarter = lane % 4;
  const int first = blockIdx.x * OUTPUTS;
  w += static_cast<long long>(first) * columns;
  extern __shared__ __align__(16) unsigned char shared[];
  unsigned char* mine = shared + warp * STAGES * STAGE;

  auto fetch = [&](int start, int stage) {
    unsigned char* to = mine + stage * STAGE;
    constexpr int CHUNKS = STEP / 8;  // of 16 bytes
#pragma unroll
    for (int i = lane; i < OUTPUTS * CHUNKS; i += 32) {
      const int row = i / CHUNKS, chunk = i % CHUNKS;
      mlxlm::copy_ahead<16>(
          to + row * LINE + 16 * chunk, w + row * columns + start + 8 * chunk);
    }
    to += OUTPUTS * LINE;
    for (int i = lane; i < min(rows, XROWS) * CHUNKS; i += 32) {
      const int row = i / CHUNKS, chunk = i % CHUNKS;
      mlxlm::copy_ahead<16>(to + row * LINE + 16 * chunk, x + row * columns + start + 8 * chunk);
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
    const unsigned char* left = mine + stage * STAGE + slot * LINE + 16 * quarter;
    const unsigned char* right = mine + stage * STAGE + OUTPUTS * LINE + 16 * quarter;
#pragma unroll
    for (int start = 0; start < 2 * STEP; start += 64) {  // bytes: 32 columns
      mlxlm::Words<4> b[MT];
#pragma unroll
      for (int m = 0; m < MT; ++m) {
        // Rows of x that there are not give sums that nothing reads.
        const int row = XROWS == 1 ? 0 : 8 * m + slot;
        b[m] = mlxlm::load<4>(right + row * LINE + start);
      }
#pragma unroll
      for (int tile = 0; tile < TILES; ++tile) {
        const auto low = mlxlm::load<4>(left + 16 * tile * LINE + start);
        const auto high = mlxlm::load<4>(left + (16 * tile + 8) * LINE + start);
        const unsigned int a0[4] = {low.v[0], high.v[0], low.v[1], high.v[1]};
        const unsigned int a1[4] = {low.v[2], high.v[2], low.v[3], high.v[3]};
#pragma unroll
        for (int m = 0; m < MT; ++m) {
          mlxlm::mma<T>(total[tile][m], a0, b[m].v[0], b[m].v[1]);
          mlxlm::mma<T>(total[tile][m], a1, b[m].v[2], b[m].v[3]);
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
