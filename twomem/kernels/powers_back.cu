// The gradient of what powers are of: a part of the sum for each block, which has EACH of the numbers of a thread.
struct Shared {
  float part[THREADS];
};

extern "C" __global__ void powers_back(const float* __restrict__ grad, const float* __restrict__ base,
                                       const long long* __restrict__ steps, float* __restrict__ found, int count, int all) {
  SHARED_MEMORY(Shared, sh)
  const float of = *base;
  float sum = 0.f;
#pragma unroll
  for (int x = 0; x < EACH; x++) {
    const int i = (blockIdx.x * EACH + x) * THREADS + threadIdx.x, step = i < all ? (int)steps[i % count] : 0;
    if (step > 0) sum = fmaf(grad[i], step == 1 ? 1.f : step * powf(of, (float)(step - 1)), sum);
  }
  sh.part[threadIdx.x] = sum;
  for (int half = THREADS / 2; half > 0; half /= 2) {
    barrier();
    if (threadIdx.x < half) sh.part[threadIdx.x] += sh.part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) found[blockIdx.x] = sh.part[0];
}
