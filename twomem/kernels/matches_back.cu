// From the gradient of the matches of every step, K[j][s] = tanh(q_s k_j), to that of q and k.
struct Shared {
  char unused;
};

extern "C" __global__ void matches_back(const float* __restrict__ normal, const elem* __restrict__ d_found, float* __restrict__ d_normal,
                                        int steps, int width) {
  const long long step = blockIdx.x;
  const float* from = normal + step * 3 * QUERIES * width;
  const elem* back = d_found + step * QUERIES * QUERIES * width;
  float* to = d_normal + step * 3 * QUERIES * width;
  if (step >= steps) return;
  for (int i = threadIdx.x; i < width; i += THREADS) {
    float q[QUERIES], to_query[QUERIES] = {};
#pragma unroll
    for (int s = 0; s < QUERIES; s++) q[s] = from[s * width + i];
    for (int j = 0; j < QUERIES; j++) {
      const float k = from[(QUERIES + j) * width + i];
      float to_key = 0.f;
#pragma unroll
      for (int s = 0; s < QUERIES; s++) {
        const float match = tanh_of(q[s] * k), slope = widen(back[(j * QUERIES + s) * width + i]) * (1.f - match * match);
        to_query[s] = fmaf(slope, k, to_query[s]);
        to_key = fmaf(slope, q[s], to_key);
      }
      to[(QUERIES + j) * width + i] = to_key;
      to[(2 * QUERIES + j) * width + i] = 0.f;
    }
#pragma unroll
    for (int s = 0; s < QUERIES; s++) to[s * width + i] = to_query[s];
  }
}
