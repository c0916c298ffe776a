// The matches of every step, K[j][s] = tanh(q_s k_j), as operands of products. A thread has one entry of the width at one step.
struct Shared {
  char unused;
};

extern "C" __global__ void matches(const float* __restrict__ normal, elem* __restrict__ found, int steps, int width) {
  const long long step = blockIdx.x;
  const float* from = normal + step * 3 * QUERIES * width;
  elem* to = found + step * QUERIES * QUERIES * width;
  if (step >= steps) return;
  for (int i = threadIdx.x; i < width; i += THREADS) {
    float q[QUERIES];
#pragma unroll
    for (int s = 0; s < QUERIES; s++) q[s] = from[s * width + i];
    for (int j = 0; j < QUERIES; j++) {
      const float k = from[(QUERIES + j) * width + i];
#pragma unroll
      for (int s = 0; s < QUERIES; s++) to[(j * QUERIES + s) * width + i] = narrow(tanh_of(q[s] * k));
    }
  }
}
