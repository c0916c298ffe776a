// The gradient of what one product heard, side by side: sums of all that its parts were used for. A warp has a row.
struct Shared {
  char unused;
};

DI float at(const float* x, long long i) { return x ? x[i] : 0.f; }

// address: what the softmax made; of the others, gradients, those that nobody has are nothing
extern "C" __global__ void join(float* __restrict__ found, const float* __restrict__ address,
                                const float* __restrict__ left0, const float* __restrict__ left1,
                                const float* __restrict__ right0, const float* __restrict__ right1, const float* __restrict__ right2,
                                const float* __restrict__ address0, const float* __restrict__ address1,
                                const float* __restrict__ gates, int rows) {
  const long long row = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
  const int lane = threadIdx.x & 31;
  if (row >= rows) return;
  float* to = found + row * (2 * D + N + GATES);
#pragma unroll 4
  for (int i = lane; i < D; i += 32) {
    const long long x = row * D + i;
    to[i] = at(left0, x) + at(left1, x), to[D + i] = at(right0, x) + at(right1, x) + at(right2, x);
  }
#pragma unroll 4
  for (int i = lane; i < GATES; i += 32) to[2 * D + N + i] = at(gates, row * GATES + i);
  const long long x = row * N + lane;
  const float share = lane < N ? address[x] : 0.f, grad = lane < N ? at(address0, x) + at(address1, x) : 0.f;
  const float met = over_g(over_tq(share * grad));
  if (lane < N) to[2 * D + lane] = share * (grad - met);
}
