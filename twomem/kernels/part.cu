// Parts what one product heard: two maps of D numbers, N of the address, which get their softmax, and the gates. A warp has a row.
struct Shared {
  char unused;
};

DI float over_all(float x) { return over_g(over_tq(x)); }
DI float largest_of(float x) {
#pragma unroll
  for (int by = 1; by < 32; by *= 2) x = fmaxf(x, from_xor(x, by));
  return x;
}

// found: row (2 D, N and GATES)
extern "C" __global__ void part(const float* __restrict__ found, float* __restrict__ left, float* __restrict__ right,
                                float* __restrict__ address, float* __restrict__ gates, int rows) {
  const long long row = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
  const int lane = threadIdx.x & 31;
  if (row >= rows) return;
  const float* from = found + row * (2 * D + N + GATES);
#pragma unroll 4
  for (int i = lane; i < D; i += 32) left[row * D + i] = from[i], right[row * D + i] = from[D + i];
#pragma unroll 4
  for (int i = lane; i < GATES; i += 32) gates[row * GATES + i] = from[2 * D + N + i];
  const bool own = lane < N;
  const float x = own ? from[2 * D + lane] : 0.f, largest = largest_of(own ? x : -3.4028234e38f);
  const float share = own ? expf(x - largest) : 0.f, all = over_all(share);
  if (own) address[row * N + lane] = share / all;
}
