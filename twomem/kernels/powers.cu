// Whole powers of one number, perhaps the same for many rows; where an exponent is negative, there is zero.
struct Shared {
  char unused;
};

extern "C" __global__ void powers(const float* __restrict__ base, const long long* __restrict__ steps, float* __restrict__ found,
                                  int count, int all) {
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= all) return;
  const int step = (int)steps[i % count];
  found[i] = step < 0 ? 0.f : step == 0 ? 1.f : powf(*base, (float)step);
}
