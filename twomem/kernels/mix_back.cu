// The gradients of `mix`: of what each stretch gives, and parts of those of what is held, the bias and the carry.
#define WARPS (THREADS / 32)

struct Shared {
  float part[WARPS][LONGEST];
};

// d_held, d_bias: batch column; d_carry: (batch group) end
extern "C" __global__ void mix_back(const float* __restrict__ grad, const float* __restrict__ found, const float* __restrict__ carry,
                                    const float* __restrict__ held, const float* __restrict__ bias, float* __restrict__ d_added,
                                    float* __restrict__ d_held, float* __restrict__ d_bias, float* __restrict__ d_carry, int ends,
                                    int batch, int columns, int distilled, int own_carry, int own_held) {
  SHARED_MEMORY(Shared, sh)
  const int groups = (columns + THREADS - 1) / THREADS, row = blockIdx.x / groups;
  const int column = blockIdx.x % groups * THREADS + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const bool inside = column < columns;
  const float more = inside ? bias[column % distilled] : 0.f;
  float flow = 0.f, sum = 0.f;
#pragma unroll 4
  for (int e = ends - 1; e >= 0; e--) {
    const long long at = ((long long)e * batch + row) * columns + column;
    float before = 0.f;
    if (inside) {
      flow += grad[at], sum += grad[at];
      d_added[at] = flow;
      before = e > 0 ? found[at - (long long)batch * columns] - more : held[(own_held ? (long long)row * columns : 0) + column];
    }
    if (d_carry) {
      const float met = over_g(over_tq(flow * before));
      if (lane == 0) sh.part[warp][e] = met;
    }
    flow *= carry[own_carry * row * ends + e];
  }
  if (inside) d_held[(long long)row * columns + column] = flow, d_bias[(long long)row * columns + column] = sum;
  barrier();
  for (int e = threadIdx.x; d_carry && e < ends; e += THREADS) {
    float total = 0.f;
    for (int w = 0; w < WARPS; w++) total += sh.part[w][e];
    d_carry[(long long)blockIdx.x * ends + e] = total;
  }
}
