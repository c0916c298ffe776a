// The power of two that brings the largest of some numbers, none of them negative, to between a half and 1.
struct Shared {
  float part[THREADS];
};

extern "C" __global__ void power_of_two(const float* __restrict__ numbers, float* __restrict__ found, int count) {
  SHARED_MEMORY(Shared, sh)
  float largest = 0.f;
  for (int i = threadIdx.x; i < count; i += THREADS) largest = fmaxf(largest, numbers[i]);
  sh.part[threadIdx.x] = largest;
  for (int half = THREADS / 2; half > 0; half /= 2) {
    barrier();
    if (threadIdx.x < half) sh.part[threadIdx.x] = fmaxf(sh.part[threadIdx.x], sh.part[threadIdx.x + half]);
  }
  if (threadIdx.x > 0) return;
  int exponent = 0;
  // of zero the exponent is zero; float32 knows no larger power than the 126th
  if (sh.part[0] <= 3.4028234e38f) frexpf(sh.part[0], &exponent);
  *found = ldexpf(1.f, exponent < -126 ? 126 : -exponent);
}
