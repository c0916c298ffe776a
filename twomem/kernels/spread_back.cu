// From the gradient of what is spread, address (x) cue times what is kept, to those of all three. A warp has a step.
struct Shared {
  char unused;
};

// address: step query; cue: step width; kept: time, or nothing; d_spread: step query width
extern "C" __global__ void spread_back(const float* __restrict__ address, const float* __restrict__ cue, const float* __restrict__ kept,
                                       const elem* __restrict__ d_spread, float* __restrict__ d_address, float* __restrict__ d_cue,
                                       float* __restrict__ d_kept, int steps, int time, int width) {
  const long long step = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
  const int lane = threadIdx.x & 31;
  if (step >= steps) return;
  const float by = kept ? kept[step % time] : 1.f;
  float p[QUERIES], met[QUERIES] = {};
#pragma unroll
  for (int s = 0; s < QUERIES; s++) p[s] = address[step * QUERIES + s];
  for (int i = lane; i < width; i += 32) {
    const float x = cue[step * width + i];
    float sum = 0.f;
#pragma unroll
    for (int s = 0; s < QUERIES; s++) {
      const float grad = widen(d_spread[(step * QUERIES + s) * width + i]);
      met[s] = fmaf(x, grad, met[s]), sum = fmaf(p[s], grad, sum);
    }
    d_cue[step * width + i] = by * sum;
  }
  float all = 0.f;
#pragma unroll
  for (int s = 0; s < QUERIES; s++) {
    const float total = over_g(over_tq(met[s]));
    all = fmaf(p[s], total, all);
    if (lane == 0) d_address[step * QUERIES + s] = by * total;
  }
  if (d_kept && lane == 0) d_kept[step] = all;
}
