// The body of the kernel that unpacks 4-bit weights: a thread takes 8 of them.
  const long long word = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (word < static_cast<long long>(w_shape[0]) * w_shape[1]) {
    const unsigned int packed = w[word];
    const float scale = static_cast<float>(s[word / (GROUP / 8)]);
    const float bias = static_cast<float>(b[word / (GROUP / 8)]);
    alignas(16) T values[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      values[i] = static_cast<T>(fmaf(scale, static_cast<float>((packed >> (4 * i)) & 15), bias));
    }
    reinterpret_cast<uint4*>(y)[word] = *reinterpret_cast<const uint4*>(values);
  }
