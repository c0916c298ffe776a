// What is read with, spread out for one product: address (x) cue, times what is kept at the step, as operands.
struct Shared {
  char unused;
};

// address: step query; cue: step width; kept: time, or nothing; found: step query width. A warp has a step.
extern "C" __global__ void spread(const float* __restrict__ address, const float* __restrict__ cue, const float* __restrict__ kept,
                                  elem* __restrict__ found, int steps, int time, int width) {
  const long long step = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
  if (step >= steps) return;
  const float by = kept ? kept[step % time] : 1.f;
  float p[QUERIES];
#pragma unroll
  for (int s = 0; s < QUERIES; s++) p[s] = by * address[step * QUERIES + s];
  for (int i = threadIdx.x & 31; i < width; i += 32) {
    const float x = cue[step * width + i];
#pragma unroll
    for (int s = 0; s < QUERIES; s++) found[(step * QUERIES + s) * width + i] = narrow(p[s] * x);
  }
}
