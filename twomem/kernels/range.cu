// The largest absolute value of two lists of numbers, a part of them for each block.
struct Shared {
  float part[THREADS];
};

DI float largest_of(const float* __restrict__ x, int count) {
  float found = 0.f;
  const int first = blockIdx.x * THREADS + threadIdx.x, stride = gridDim.x * THREADS;
  // four at a time where they stand so
  const int fours = (size_t)x % 16 ? 0 : count / 4;
#pragma unroll 4
  for (int i = first; i < fours; i += stride) {
    const float4 r = ((const float4*)x)[i];
    found = fmaxf(found, fmaxf(fmaxf(fabsf(r.x), fabsf(r.y)), fmaxf(fabsf(r.z), fabsf(r.w))));
  }
  for (int i = 4 * fours + first; i < count; i += stride) found = fmaxf(found, fabsf(x[i]));
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
