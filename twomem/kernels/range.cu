// The largest absolute value of two lists of numbers, a part of them for each block.
struct Shared {
  float part[THREADS];
};

DI float largest_of(const float* __restrict__ x, int count) {
  float found = 0.f;
#pragma unroll 8
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < count; i += gridDim.x * THREADS) found = fmaxf(found, fabsf(x[i]));
  return found;
}

extern "C" __global__ void range(const float* __restrict__ first, const float* __restrict__ second, float* __restrict__ found,
                                 int first_count, int second_count) {
  SHARED_MEMORY(Shared, sh)
  sh.part[threadIdx.x] = fmaxf(largest_of(first, first_count), largest_of(second, second_count));
  for (int half = THREADS / 2; half > 0; half /= 2) {
    barrier();
    if (threadIdx.x < half) sh.part[threadIdx.x] = fmaxf(sh.part[threadIdx.x], sh.part[threadIdx.x + half]);
  }
  if (threadIdx.x == 0) found[blockIdx.x] = sh.part[0];
}
